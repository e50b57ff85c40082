package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Below the store's directory, which only its user can enter:
//
//	images/HEX/rootfs.erofs, image.json   a whole image, by the digest of its manifest
//	refs.json                             the image of each reference
//	work/HEX/                             the unfinished pull of that image
//	locks/HEX, locks/refs                 flocked while an image is made or removed, or refs.json is replaced
//
// An image appears in images by one rename, after all of it is on the disk. A pull verifies the digests of files from a
// killed pull before it uses them.
const (
	imagesDir = "images"
	workDir   = "work"
	locksDir  = "locks"
	refsFile  = "refs.json"

	rootFile = "rootfs.erofs"
	infoFile = "image.json"
	// removed marks an image in work that is being removed.
	removed = ".removed"

	// lockPoll is the interval of attempts to take a lock.
	lockPoll = 50 * time.Millisecond
	// stallTimeout bounds a registry's silence.
	stallTimeout = time.Minute
	// retryDelay is the time before the first retry of a download. It doubles with each retry.
	retryDelay = 500 * time.Millisecond
)

// Store keeps the images of one user in a directory. It is safe for concurrent use, also by several processes.
type Store struct {
	dir    string
	limits layer.Limits
	stall  time.Duration
	delay  time.Duration
}

// Open returns the store in a directory. It does no I/O: the first Pull makes the directory.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Store{dir: dir, limits: layer.DefaultLimits(), stall: stallTimeout, delay: retryDelay}, nil
}

// Get returns a stored image by a reference, an id, or a unique prefix of an id with at least 12 hex digits.
// KindNotFound: it is not stored. KindUsage: the reference is invalid, or several ids begin with it.
func (s *Store) Get(_ context.Context, ref string) (Image, error) {
	refs, err := s.refs()
	if err != nil {
		return Image{}, err
	}
	hex, key, err := s.resolve(refs, ref)
	if err != nil {
		return Image{}, err
	}
	image, err := s.read(hex, refs)
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, notStored(ref)
	}
	if err == nil && key != "" && !slices.Contains(image.Refs, key) {
		return Image{}, notStored(ref)
	}
	return image, err
}

func notStored(ref string) error {
	return core.Errorf(core.KindNotFound, "local.image", ref, "there is no image %q", ref).
		WithHint("sb image ls lists them")
}

// resolve returns the hex digits of the image that ref names. key is the key in refs, or "" for an id.
func (s *Store) resolve(refs map[string]string, ref string) (hex, key string, err error) {
	prefix, whole, ok := isID(ref)
	if whole {
		return prefix, "", nil
	}
	t, err := parse(ref)
	if err == nil {
		if id, found := refs[t.key()]; found {
			return strings.TrimPrefix(id, "sha256:"), t.key(), nil
		}
	}
	if !ok {
		if err == nil {
			err = notStored(ref)
		}
		return "", "", err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if hex != "" {
			return "", "", core.Errorf(core.KindUsage, "local.image", ref, "several images have ids that begin with it")
		}
		hex = e.Name()
	}
	if hex == "" {
		return "", "", notStored(ref)
	}
	return hex, "", nil
}

// List returns the stored images in the order of their first reference. Images without a reference come last. The error
// names damaged images, which List leaves out.
func (s *Store) List(context.Context) ([]Image, error) {
	refs, err := s.refs()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Image
	var damaged []error
	for _, e := range entries {
		image, err := s.read(e.Name(), refs)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed after ReadDir
		case err != nil:
			damaged = append(damaged, err)
		default:
			list = append(list, image)
		}
	}
	slices.SortFunc(list, func(a, b Image) int {
		if (len(a.Refs) == 0) != (len(b.Refs) == 0) {
			return len(b.Refs) - len(a.Refs)
		}
		return strings.Compare(strings.Join(a.Refs, " ")+a.ID, strings.Join(b.Refs, " ")+b.ID)
	})
	return list, errors.Join(damaged...)
}

// read reads an image.
func (s *Store) read(hex string, refs map[string]string) (Image, error) {
	dir := filepath.Join(s.dir, imagesDir, hex)
	raw, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil {
		return Image{}, err
	}
	image := Image{}
	file := filepath.Join(dir, rootFile)
	err = json.Unmarshal(raw, &image)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(file); err == nil && info.Size() != image.Size {
			err = fmt.Errorf("it has %d bytes instead of %d", info.Size(), image.Size)
		}
	}
	if err != nil {
		return Image{}, core.Errorf(core.KindInternal, "local.image", hex[:min(len(hex), 12)],
			"the stored image is damaged: %v", err).WithHint("remove it and pull it again: sb image rm sha256:%s", hex)
	}
	image.Path, image.Refs = file, nil
	for ref, id := range refs {
		if id == image.ID {
			image.Refs = append(image.Refs, ref)
		}
	}
	slices.Sort(image.Refs)
	return image, nil
}

// Remove removes a reference. With an id or the last reference of an image it removes the image, too. KindNotFound: it
// is not stored. The caller makes sure that no sandbox needs it.
func (s *Store) Remove(ctx context.Context, ref string) error {
	refs, err := s.refs()
	if err != nil {
		return err
	}
	hex, key, err := s.resolve(refs, ref)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, hex)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(filepath.Join(s.dir, imagesDir, hex)); errors.Is(err, fs.ErrNotExist) {
		return notStored(ref)
	}
	named := false
	err = s.updateRefs(ctx, func(refs map[string]string) {
		for has, id := range refs {
			switch {
			case id != "sha256:"+hex:
			case key == "" || has == key:
				delete(refs, has)
			default:
				named = true
			}
		}
	})
	if err != nil || named {
		return err
	}
	return s.remove(hex)
}

// remove removes an image. The caller holds its lock.
func (s *Store) remove(hex string) error {
	trash := filepath.Join(s.dir, workDir, hex+removed)
	if err := os.MkdirAll(filepath.Dir(trash), 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, imagesDir, hex), trash); err != nil {
		return err
	}
	return os.RemoveAll(trash)
}

// Leftovers returns unused directories: those of killed pulls and removals, and images without a reference. The map's
// values are the ids of such images, or "".
func (s *Store) Leftovers(ctx context.Context) (map[string]string, error) {
	list, err := s.List(ctx)
	left := map[string]string{}
	for _, image := range list {
		// A pull makes an image before its reference.
		if dir := filepath.Dir(image.Path); len(image.Refs) == 0 && s.idle(dir) {
			left[dir] = image.ID
		}
	}
	entries, workErr := os.ReadDir(filepath.Join(s.dir, workDir))
	if errors.Is(workErr, fs.ErrNotExist) {
		workErr = nil
	}
	for _, e := range entries {
		if dir := filepath.Join(s.dir, workDir, e.Name()); s.idle(dir) {
			left[dir] = ""
		}
	}
	return left, errors.Join(err, workErr)
}

// idle reports whether no process works on a directory.
func (s *Store) idle(dir string) bool {
	unlock, err := s.tryLock(dir)
	if err != nil {
		return false
	}
	unlock()
	return true
}

// Clear removes a leftover. KindConflict: it is no longer a leftover. The caller makes sure that no sandbox needs it.
func (s *Store) Clear(dir string) error {
	unlock, err := s.tryLock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if filepath.Dir(dir) == filepath.Join(s.dir, workDir) {
		return os.RemoveAll(dir)
	}
	refs, err := s.refs()
	if err != nil {
		return err
	}
	for ref, id := range refs {
		if id == "sha256:"+filepath.Base(dir) {
			return core.Errorf(core.KindConflict, "local.image", ref, "the reference names the image again")
		}
	}
	return s.remove(filepath.Base(dir))
}

// tryLock takes the lock of a directory if it is free. KindConflict: a process works on it.
func (s *Store) tryLock(dir string) (unlock func(), err error) {
	lock := flock.New(s.lockPath(strings.TrimSuffix(filepath.Base(dir), removed)), flock.SetPermissions(0o600))
	free, err := lock.TryLock()
	if err == nil && !free {
		err = core.Errorf(core.KindConflict, "local.image", dir, "another process works on the image")
	}
	return func() { _ = lock.Unlock() }, err
}

func (s *Store) lockPath(name string) string { return filepath.Join(s.dir, locksDir, name) }

// lock waits for a lock. Lock files are never removed, so that all processes wait for the same file.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(s.dir, locksDir), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(s.lockPath(name), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// refs returns the image of each reference.
func (s *Store) refs() (map[string]string, error) {
	refs := map[string]string{}
	raw, err := os.ReadFile(filepath.Join(s.dir, refsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return refs, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &refs); err != nil {
		return nil, core.Errorf(core.KindInternal, "local.image", filepath.Join(s.dir, refsFile),
			"the file is damaged: %w", err).WithHint("remove it: the images stay, and a pull names them again")
	}
	return refs, nil
}

// updateRefs replaces refs.json.
func (s *Store) updateRefs(ctx context.Context, change func(map[string]string)) error {
	unlock, err := s.lock(ctx, "refs")
	if err != nil {
		return err
	}
	defer unlock()
	refs, err := s.refs()
	if err != nil {
		return err
	}
	change(refs)
	raw, err := json.MarshalIndent(refs, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(filepath.Join(s.dir, refsFile), raw, 0o600)
}
