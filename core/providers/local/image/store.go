package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Below the store's directory, which only its user can enter:
//
//	images/HEX/rootfs.erofs, image.json   a whole image, by the digest of its manifest
//	images/HEX/used                       its modification time is that of the image's last use
//	refs.json                             the image of each reference
//	work/HEX/                             the unfinished pull of that image
//	locks/HEX, locks/refs                 flocked while an image is made or removed, or refs.json is replaced; locks/HEX
//	                                      is shared while a launch is about to use the image
//
// An image appears in images by one rename, after all of it is on the disk. A pull verifies the digests of files from a
// killed pull before it uses them. The JSON files are sealed, with copies: package core/providers/local/store. A pull
// computes the checksum of rootfs.erofs. Each use compares the file's size and time, and Check the checksum.
const (
	imagesDir = "images"
	workDir   = "work"
	locksDir  = "locks"
	refsFile  = "refs.json"

	rootFile = "rootfs.erofs"
	infoFile = "image.json"
	usedFile = "used"
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
	// dial replaces the connections to registries, unless it is nil.
	dial dialer
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
// KindNotFound: it is not stored. KindUsage: the reference is invalid, or several ids begin with it. KindInternal: the
// image is damaged.
func (s *Store) Get(ctx context.Context, ref string) (Image, error) {
	refs, err := s.refs()
	if err != nil {
		return Image{}, err
	}
	hex, key, err := s.resolve(refs, ref)
	if err != nil {
		return Image{}, err
	}
	r, err := s.read(hex, refs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Image{}, notStored(ref)
	case err != nil:
		return Image{}, err
	case key != "" && !slices.Contains(r.Refs, key):
		return Image{}, notStored(ref)
	}
	return r.Image, s.sound(ctx, hex, r)
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
	ids, err := s.ids()
	if err != nil {
		return "", "", err
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if hex != "" {
			return "", "", core.Errorf(core.KindUsage, "local.image", ref, "several images have ids that begin with it")
		}
		hex = id
	}
	if hex == "" {
		return "", "", notStored(ref)
	}
	return hex, "", nil
}

// ids returns the hex digits of all stored images.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// List returns the stored images in the order of their first reference. Images without a reference come last. Of the
// files it compares only the sizes: Image.Damage names what it found.
func (s *Store) List(context.Context) ([]Image, error) {
	refs, err := s.refs()
	if err != nil {
		return nil, err
	}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var list []Image
	for _, hex := range ids {
		r, err := s.read(hex, refs)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after ids
		}
		if err != nil {
			r.Image = Image{
				ID: "sha256:" + hex, Refs: namesOf(hex, refs), Path: filepath.Join(s.dir, imagesDir, hex, rootFile), Damage: err,
			}
		}
		list = append(list, r.Image)
	}
	slices.SortFunc(list, func(a, b Image) int {
		if (len(a.Refs) == 0) != (len(b.Refs) == 0) {
			return len(b.Refs) - len(a.Refs)
		}
		return strings.Compare(strings.Join(a.Refs, " ")+a.ID, strings.Join(b.Refs, " ")+b.ID)
	})
	return list, nil
}

// Hold keeps a stored image from being removed until the caller calls release. Other callers can hold it, too. It
// records the time as that of the image's last use. KindNotFound: the image is no longer stored.
func (s *Store) Hold(ctx context.Context, id string) (release func(), err error) {
	hex := strings.TrimPrefix(id, "sha256:")
	release, err = s.lockShared(ctx, hex)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, imagesDir, hex)
	if _, err := os.Lstat(dir); err != nil {
		release()
		if errors.Is(err, fs.ErrNotExist) {
			err = notStored(id)
		}
		return nil, err
	}
	s.touch(dir)
	return release, nil
}

// touch records the current time as that of the image's last use. A store that cannot be written to is usable without.
func (s *Store) touch(dir string) {
	file := filepath.Join(dir, usedFile)
	now := time.Now()
	if err := os.Chtimes(file, now, now); errors.Is(err, fs.ErrNotExist) {
		_ = os.WriteFile(file, nil, 0o600)
	}
}

// Remove removes a reference. With an id or the last reference of an image it removes the image, too. KindNotFound: it
// is not stored. inUse returns an error for the id of an image that must be kept; Remove returns it. No process can
// begin to use the image while inUse runs, because that needs Hold.
func (s *Store) Remove(ctx context.Context, ref string, inUse func(id string) error) error {
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
	// A pull that held the lock may have added references.
	if refs, err = s.refs(); err != nil {
		return err
	}
	names := namesOf(hex, refs)
	if key != "" && !slices.Contains(names, key) {
		return notStored(ref)
	}
	whole := key == "" || len(names) < 2
	if whole {
		if err := inUse("sha256:" + hex); err != nil {
			return err
		}
	}
	err = s.updateRefs(ctx, func(refs map[string]string) {
		for _, name := range names {
			if (key == "" || name == key) && refs[name] == "sha256:"+hex {
				delete(refs, name)
			}
		}
	})
	if err != nil || !whole {
		return err
	}
	return s.remove(hex)
}

// RemoveFree removes an image with all its references. It never waits. KindConflict: the image is held, a process works
// on it, or inUse returned that. KindNotFound: it is not stored.
func (s *Store) RemoveFree(ctx context.Context, id string, inUse func(id string) error) error {
	hex := strings.TrimPrefix(id, "sha256:")
	dir := filepath.Join(s.dir, imagesDir, hex)
	unlock, err := s.tryLock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return notStored(id)
	}
	if err := inUse(id); err != nil {
		return err
	}
	if err := s.updateRefs(ctx, func(refs map[string]string) {
		for _, name := range namesOf(hex, refs) {
			delete(refs, name)
		}
	}); err != nil {
		return err
	}
	return s.remove(hex)
}

// Kept is a stored image with what decides about its removal.
type Kept struct {
	Image

	// Used is the time of the last launch, pull or import.
	Used time.Time
	// Imported means that no registry is known to have the image.
	Imported bool
}

// ByUse returns the stored images, the least recently used first. Damaged images are left out.
func (s *Store) ByUse(context.Context) ([]Kept, error) {
	refs, err := s.refs()
	if err != nil {
		return nil, err
	}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var list []Kept
	for _, hex := range ids {
		r, err := s.read(hex, refs)
		if err != nil {
			continue
		}
		kept := Kept{Image: r.Image, Imported: r.Imported, Used: r.Written}
		if info, err := os.Stat(filepath.Join(s.dir, imagesDir, hex, usedFile)); err == nil {
			kept.Used = info.ModTime()
		}
		list = append(list, kept)
	}
	slices.SortStableFunc(list, func(a, b Kept) int { return a.Used.Compare(b.Used) })
	return list, nil
}

// Source returns the configuration of a stored image as other tools know it.
func (s *Store) Source(id string) (*v1.ConfigFile, error) {
	r, err := s.read(strings.TrimPrefix(id, "sha256:"), nil)
	if err != nil {
		return nil, err
	}
	return r.configFile()
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

// Clear removes a leftover. KindConflict: it is no longer a leftover. inUse is as in Remove.
func (s *Store) Clear(dir string, inUse func(id string) error) error {
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
			return core.Errorf(core.KindConflict, "local.image", ref, "the reference is in use again")
		}
	}
	if err := inUse("sha256:" + filepath.Base(dir)); err != nil {
		return err
	}
	return s.remove(filepath.Base(dir))
}

// tryLock takes the lock of a directory if it is free. KindConflict: a process works on it.
func (s *Store) tryLock(dir string) (unlock func(), err error) {
	lock := flock.New(s.lockPath(strings.TrimSuffix(filepath.Base(dir), removed)), flock.SetPermissions(0o600))
	free, err := lock.TryLock()
	if err == nil && !free {
		err = core.Errorf(core.KindConflict, "local.image", dir, "another process uses the image")
	}
	return func() { _ = lock.Unlock() }, err
}

func (s *Store) lockPath(name string) string { return filepath.Join(s.dir, locksDir, name) }

// lock waits for a lock.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	lock, err := s.newLock(name)
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// lockShared waits for a lock that several processes can hold.
func (s *Store) lockShared(ctx context.Context, name string) (unlock func(), err error) {
	lock, err := s.newLock(name)
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryRLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// newLock returns a lock that is not taken. Lock files are never removed, so that all processes wait for the same file.
func (s *Store) newLock(name string) (*flock.Flock, error) {
	if err := os.MkdirAll(filepath.Join(s.dir, locksDir), 0o700); err != nil {
		return nil, err
	}
	return flock.New(s.lockPath(name), flock.SetPermissions(0o600)), nil
}

// refs returns the image of each reference. The copy replaces a damaged file.
func (s *Store) refs() (map[string]string, error) {
	refs := map[string]string{}
	_, err := store.ReadJSON(filepath.Join(s.dir, refsFile), &refs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refs, nil
	case store.IsDamage(err):
		return nil, damagedRefs(err)
	}
	return refs, err
}

// damagedRefs returns the error for a damaged refs.json.
func damagedRefs(err error) error {
	return core.Errorf(core.KindInternal, "local.image", "", "%w", err).
		WithHint("remove it and its copy: the images stay, and sb image pull names them again")
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
	return store.WriteJSON(filepath.Join(s.dir, refsFile), refs, true)
}
