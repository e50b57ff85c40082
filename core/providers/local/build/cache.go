package build

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/klauspost/compress/zstd"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Below the builder's directory, which only its user can enter:
//
//	steps/KEY.json     the layer of a step, by the key of the step
//	layers/HEX         a layer, by the digest of its archive
//	caches/HEX/        a directory of RUN --mount=type=cache, by the digest of its id
//	work/NAME/         the files of one build; its lock file is flocked during the build
//	locks/KEY          flocked while a step is made
//	locks/all          flocked shared during a build, and exclusively while layers are removed
//	locks/work         flocked while the files of killed builds are removed, and those of a build are made
//
// A file appears in steps and layers by one rename, after all of it is on the disk. The digest of a layer is verified
// at each use. So what a killed build leaves is never used.
const (
	stepsDir  = "steps"
	layersDir = "layers"
	cachesDir = "caches"
	workDir   = "work"
	locksDir  = "locks"
	allLock   = "all"
	workLock  = "work"
	lockFile  = "lock"

	// lockPoll is the interval of attempts to take a lock.
	lockPoll = 50 * time.Millisecond
)

// entry is the content of a file in steps.
type entry struct {
	// DiffID is the digest of the layer's uncompressed archive, in hexadecimal. It is "" for an Alias.
	DiffID string `json:"diff_id,omitempty"`
	// Alias is the key of the step with the same layer.
	Alias string `json:"alias,omitempty"`
	// Step is the instruction, for users who read the file.
	Step string `json:"step,omitempty"`
}

// cache has the layers of finished steps.
type cache struct {
	dir string
	// work is the directory of this build.
	work        string
	lock, alive *flock.Flock
}

// openCache opens the cache for one build. It also removes the files of killed builds.
func openCache(ctx context.Context, dir string) (_ *cache, err error) {
	for _, sub := range []string{stepsDir, layersDir, cachesDir, workDir, locksDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	c := &cache{dir: dir, lock: newLock(filepath.Join(dir, locksDir, allLock))}
	if _, err := c.lock.TryRLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.lock.Unlock()
		}
	}()
	// A sweep would remove the lock file of a build between its creation and its lock.
	making := newLock(filepath.Join(dir, locksDir, workLock))
	if _, err := making.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, making.Unlock()) }()
	if err := sweep(dir); err != nil {
		return nil, err
	}
	c.work = filepath.Join(dir, workDir, rand.Text())
	c.alive = newLock(c.work + "." + lockFile)
	if _, err := c.alive.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return c, os.Mkdir(c.work, 0o700)
}

func newLock(path string) *flock.Flock { return flock.New(path, flock.SetPermissions(0o600)) }

// Leftovers returns the directories of killed builds below a builder's directory.
func Leftovers(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, workDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var left []string
	for _, e := range entries {
		path := filepath.Join(dir, workDir, e.Name())
		if !e.IsDir() {
			continue
		}
		lock := newLock(path + "." + lockFile)
		if free, err := lock.TryLock(); err == nil && free {
			left = append(left, path)
			_ = lock.Unlock()
		}
	}
	return left, err
}

// sweep removes the directories of killed builds, and unused lock files. The caller holds workLock.
func sweep(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, workDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, workDir, strings.TrimSuffix(e.Name(), "."+lockFile))
		lock := newLock(name + "." + lockFile)
		free, err := lock.TryLock()
		if err != nil || !free {
			continue
		}
		err = errors.Join(os.RemoveAll(name), os.Remove(lock.Path()), lock.Unlock())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close removes the files of the build, and the layers that were not used for the longest time beyond size bytes.
func (c *cache) close(size int64) error {
	err := errors.Join(os.RemoveAll(c.work), os.Remove(c.alive.Path()), c.alive.Unlock(), c.lock.Unlock())
	free, lockErr := c.lock.TryLock()
	if lockErr != nil || !free {
		return errors.Join(err, lockErr) // another build does it later
	}
	return errors.Join(err, c.shrink(size), c.lock.Unlock())
}

// shrink removes steps until the layers have at most size bytes. The caller holds the lock.
func (c *cache) shrink(size int64) error {
	layers, err := os.ReadDir(filepath.Join(c.dir, layersDir))
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	var total int64
	for _, l := range layers {
		if info, err := l.Info(); err == nil {
			sizes[l.Name()] = info.Size()
			total += info.Size()
		}
	}
	steps, err := c.steps()
	if err != nil {
		return err
	}
	users := map[string]int{}
	for _, s := range steps {
		users[s.DiffID]++
	}
	for _, s := range steps {
		if total <= size {
			break
		}
		if err := os.Remove(s.path); err != nil {
			return err
		}
		if users[s.DiffID]--; users[s.DiffID] == 0 {
			total -= sizes[s.DiffID]
		}
	}
	for name := range sizes {
		if users[name] > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, layersDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// used is a file in steps.
type used struct {
	entry

	path string
	at   time.Time
}

// steps returns the steps, those that were not used for the longest time first.
func (c *cache) steps() ([]used, error) {
	files, err := os.ReadDir(filepath.Join(c.dir, stepsDir))
	if err != nil {
		return nil, err
	}
	var list []used
	for _, f := range files {
		s := used{path: filepath.Join(c.dir, stepsDir, f.Name())}
		if info, err := f.Info(); err == nil {
			s.at = info.ModTime()
		}
		// An unreadable file is no use, and so the first to go.
		if raw, err := os.ReadFile(s.path); err != nil || json.Unmarshal(raw, &s.entry) != nil {
			s.entry, s.at = entry{}, time.Time{}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b used) int { return a.at.Compare(b.at) })
	return list, nil
}

// get returns the layer of a step.
func (c *cache) get(key string) (entry, bool) {
	path := filepath.Join(c.dir, stepsDir, key+".json")
	raw, err := os.ReadFile(path)
	var e entry
	if err != nil || json.Unmarshal(raw, &e) != nil {
		return entry{}, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // for shrink
	if e.Alias != "" {
		return e, true
	}
	_, err = os.Stat(c.layer(e.DiffID))
	return e, err == nil && isDigest(e.DiffID)
}

func isDigest(hex string) bool {
	return len(hex) == sha256.Size*2 && strings.Trim(hex, "0123456789abcdef") == ""
}

func (c *cache) layer(diffID string) string { return filepath.Join(c.dir, layersDir, diffID) }

// put stores a finished step.
func (c *cache) put(key string, e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(filepath.Join(c.dir, stepsDir, key+".json"), append(raw, '\n'), 0o600)
}

// locked takes the lock of a step.
func (c *cache) locked(ctx context.Context, key string) (unlock func(), err error) {
	lock := newLock(filepath.Join(c.dir, locksDir, key))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// write stores the layer that fill writes, and returns its digest.
func (c *cache) write(fill func(to io.Writer) error) (diffID string, err error) {
	file, err := os.CreateTemp(c.work, "layer-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(file.Name()))) }()
	packed, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return "", errors.Join(err, file.Close())
	}
	sum := sha256.New()
	err = fill(io.MultiWriter(sum, packed))
	if err = errors.Join(err, packed.Close()); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	diffID = hex.EncodeToString(sum.Sum(nil))
	if err := os.Rename(file.Name(), c.layer(diffID)); err != nil {
		return "", err
	}
	return diffID, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errLayer is in the chain of errors about a stored layer that is not as it was written.
var errLayer = errors.New("the cached layer is damaged")

// read returns the archive of a layer. After the end of the archive, verify compares its digest.
func (c *cache) read(diffID string) (*layerReader, error) {
	file, err := os.Open(c.layer(diffID))
	if err != nil {
		return nil, err
	}
	packed, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &layerReader{file: file, packed: packed, sum: sha256.New(), want: diffID}, nil
}

// layerReader reads the archive of a layer.
type layerReader struct {
	file   *os.File
	packed *zstd.Decoder
	sum    hash.Hash
	want   string
}

func (r *layerReader) Read(p []byte) (int, error) {
	n, err := r.packed.Read(p)
	_, _ = r.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errLayer, err)
	}
	return n, err
}

// verify returns errLayer if the archive has another digest.
func (r *layerReader) verify() error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.want {
		return fmt.Errorf("%w: its digest is %s and not %s", errLayer, got, r.want)
	}
	return nil
}

func (r *layerReader) close() {
	r.packed.Close()
	_ = r.file.Close()
}

// keyOf returns the key of a step after the step with the key parent. what describes the step.
func keyOf(parent string, what any) (string, error) {
	raw, err := json.Marshal(what)
	if err != nil {
		return "", core.Wrap("local.build", "", err)
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%d\n", parent, len(raw))
	_, _ = sum.Write(raw)
	return hex.EncodeToString(sum.Sum(nil)), nil
}
