package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

const (
	// downloads is the number of concurrent downloads of an image's layers.
	downloads = 4
	// attempts bounds how often a download is started.
	attempts = 3
	// reportEvery is the number of bytes between two reports.
	reportEvery = 256 << 10
	// namedFiles is the number of files that a warning names.
	namedFiles = 5
)

// Pull returns the image that ref names. It stores an image that is not stored yet. Concurrent pulls of the same image
// do the work once. ref is a registry's reference ("python:3.12", "ghcr.io/me/dev@sha256:…"), "oci:DIR[:TAG]",
// "oci-archive:FILE[:TAG]", "docker-archive:FILE[:NAME]", "dir:PATH", "docker-daemon:NAME", or a stored image's id.
// Files are read at each Pull, whatever the policy, except for PullNever. An engine is asked at each Pull.
//
// KindUsage: the reference is invalid, or the image is hostile. KindNotFound: there is no such image, or none for this
// platform. KindUnauthorized: the registry refuses the credentials. KindUnavailable: the registry cannot be reached,
// fails, or sends other content than announced. KindExhausted: the disk or a limit of package layer is full.
func (s *Store) Pull(ctx context.Context, ref string, opts PullOptions) (Image, error) {
	image, err := s.pull(ctx, ref, opts)
	return image, classify(ref, err)
}

func (s *Store) pull(ctx context.Context, ref string, opts PullOptions) (Image, error) {
	t, parseErr := parse(ref)
	if opts.Policy == core.PullNever || parseErr != nil || t.place == "" && opts.Policy != core.PullAlways || t.pinned() {
		image, err := s.Get(ctx, ref)
		if errors.Is(err, core.KindNotFound) && t.pinned() {
			image, err = s.keep(ctx, t.digest(), t.key())
		}
		if errors.Is(err, core.KindNotFound) && opts.Policy == core.PullNever {
			return image, core.Errorf(core.KindNotFound, "local.image", ref,
				"the image is not stored here, and the policy for pulls is %q", opts.Policy).
				WithHint("pull it first: sb image pull %s", ref)
		}
		if err == nil || !errors.Is(err, core.KindNotFound) && opts.Policy != core.PullAlways {
			return image, err
		}
	}
	if parseErr != nil {
		return Image{}, parseErr
	}
	if _, whole, _ := isID(ref); whole {
		return Image{}, notStored(ref)
	}
	progress := &progress{to: opts.Progress, ref: ref}
	progress.step("finding")
	key := t.key()
	if t.place == placeDockerDaemon {
		stored, engineID, err := s.known(ctx, t, opts)
		if err == nil && (engineID == "" || !opts.Verify) {
			return s.keep(ctx, stored.ID, key)
		}
		if engineID == "" {
			return Image{}, err
		}
		t.engineID = engineID
	}
	from, err := s.find(ctx, t, opts)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = from.close() }()
	return s.obtain(ctx, from, wanted{keys: []string{key}, engineID: t.engineID, verify: opts.Verify}, progress)
}

// wanted is how an image is stored.
type wanted struct {
	// keys are the references of the image.
	keys     []string
	engineID string
	// imported is as in record, and verify as in PullOptions.
	imported, verify bool
}

// obtain stores an image unless it is stored, and gives it its references.
func (s *Store) obtain(ctx context.Context, from *found, w wanted, progress *progress) (Image, error) {
	unlock, err := s.lock(ctx, from.id.Hex)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	r, err := s.read(from.id.Hex, nil)
	if err == nil && w.verify {
		err = r.verify(ctx, from.id.Hex)
	}
	if ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	if err != nil {
		if err := s.make(ctx, from, w.imported, progress); err != nil {
			return Image{}, err
		}
	} else if w.verify {
		// This also repairs a damaged record with an intact copy.
		if err := r.write(filepath.Dir(r.Path)); err != nil {
			return Image{}, err
		}
	}
	if w.engineID != "" {
		if err := s.mark(from.id.Hex, w.engineID); err != nil {
			return Image{}, err
		}
	}
	r, err = s.addRef(ctx, from.id.Hex, w.keys...)
	return r.Image, err
}

// keep adds a reference to a stored image. KindNotFound: it is not stored.
func (s *Store) keep(ctx context.Context, id, key string) (Image, error) {
	hex := strings.TrimPrefix(id, "sha256:")
	if _, err := s.read(hex, nil); err != nil {
		return Image{}, notStored(key)
	}
	unlock, err := s.lock(ctx, hex)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if _, err := s.read(hex, nil); err != nil {
		return Image{}, notStored(key)
	}
	r, err := s.addRef(ctx, hex, key)
	if err != nil {
		return Image{}, err
	}
	return r.Image, s.sound(ctx, hex, r)
}

// addRef lets references name a stored image. The caller holds its lock.
func (s *Store) addRef(ctx context.Context, hex string, keys ...string) (record, error) {
	if err := s.updateRefs(ctx, func(refs map[string]string) {
		for _, key := range keys {
			refs[key] = "sha256:" + hex
		}
	}); err != nil {
		return record{}, err
	}
	s.touch(filepath.Join(s.dir, imagesDir, hex))
	refs, err := s.refs()
	if err != nil {
		return record{}, err
	}
	return s.read(hex, refs)
}

func (s *Store) find(ctx context.Context, t target, opts PullOptions) (*found, error) {
	switch t.place {
	case "":
		return findRemote(ctx, t, opts, patience{s.stall, s.delay, s.dial})
	case placeDockerDaemon:
		return s.findEngine(ctx, t.engineID, opts)
	}
	return findLocal(t)
}

// make stores an image. The caller holds its lock.
func (s *Store) make(ctx context.Context, from *found, imported bool, progress *progress) error {
	var config *v1.ConfigFile
	var source []byte
	err := s.retry(ctx, func() (err error) {
		config, source, err = from.configuration(ctx)
		return err
	})
	if err != nil {
		return err
	}
	work := filepath.Join(s.dir, workDir, from.id.Hex)
	out := filepath.Join(work, "image")
	// The downloads of an earlier pull are used after their verification. The incomplete image is not.
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	r, err := s.unpack(ctx, from, config, work, filepath.Join(out, rootFile), progress)
	if err != nil {
		_ = os.RemoveAll(out)
		// A later pull uses the downloads.
		if !from.remote || !repeatable(err) && ctx.Err() == nil {
			_ = os.RemoveAll(work)
		}
		return err
	}
	r.ID, r.Source, r.Imported = from.id.String(), source, imported
	r.Config, r.Created = converted(config)
	if err := s.publish(from.id.Hex, out, r); err != nil {
		return err
	}
	if r.NoXattrs.Count > 0 {
		progress.warn(fmt.Sprintf(
			"%s: extended attributes, such as file capabilities, are not kept: %s", progress.ref, r.NoXattrs,
		))
	}
	return os.RemoveAll(work)
}

// publish makes a complete image durable, and then moves it to its place.
func (s *Store) publish(hex, out string, r record) error {
	if err := errors.Join(r.write(out), store.SyncDir(out)); err != nil {
		return err
	}
	place := filepath.Join(s.dir, imagesDir, hex)
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(place); err == nil {
		// The existing image is damaged. Otherwise the pull would have used it.
		if err := s.remove(hex); err != nil {
			return err
		}
	}
	if err := os.Rename(out, place); err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(place))
}

// unpack writes the file system of an image into a file, and returns its size, time and checksum. It downloads layers
// concurrently, and applies them in order while later layers are downloaded.
func (s *Store) unpack(
	ctx context.Context, from *found, config *v1.ConfigFile, work, file string, progress *progress,
) (r record, err error) {
	out, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return r, err
	}
	defer func() {
		if out != nil {
			_ = out.Close()
		}
	}()
	layers := from.manifest.Layers
	ready := make([]chan struct{}, len(layers))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(downloads + 1)
	meter := layer.NewMeter(s.limits)
	tree := layer.New(out, s.limits, meter)
	group.Go(func() error {
		for i, l := range layers {
			select {
			case <-ready[i]:
			case <-groupCtx.Done():
				return groupCtx.Err()
			}
			if err := from.apply(groupCtx, tree, meter, work, l, config.RootFS.DiffIDs[i]); err != nil {
				return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
			}
		}
		return tree.Prepare(config.Config.WorkingDir)
	})
	for _, l := range layers {
		progress.total += l.Size
	}
	progress.step("pulling")
	for i, l := range layers {
		if groupCtx.Err() != nil {
			break
		}
		if !from.remote {
			close(ready[i])
			continue
		}
		group.Go(func() error {
			err := s.download(groupCtx, from, l, blobPath(work, l.Digest), progress)
			if err == nil {
				close(ready[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	r.NoXattrs.Count, r.NoXattrs.First = tree.Extended(namedFiles)
	progress.step("writing")
	if err := errors.Join(tree.Finish(identity(from.id)), out.Sync()); err != nil {
		return r, err
	}
	info, err := out.Stat()
	if err != nil {
		return r, err
	}
	r.Size, r.Written = info.Size(), info.ModTime()
	if r.CRC32C, err = checksum(ctx, io.NewSectionReader(out, 0, r.Size)); err != nil {
		return r, err
	}
	err = out.Close()
	out = nil
	return r, err
}

// identity returns the first 16 bytes of a digest.
func identity(of v1.Hash) (id [16]byte) {
	if raw, err := hex.DecodeString(of.Hex); err == nil {
		copy(id[:], raw)
	}
	return id
}

func blobPath(work string, of v1.Hash) string { return filepath.Join(work, of.Hex) }

// apply applies a layer to a tree, and verifies both digests of the layer.
func (f *found) apply(
	ctx context.Context, tree *layer.Tree, meter *layer.Meter, work string, of v1.Descriptor, diffID v1.Hash,
) error {
	var blob io.ReadCloser
	var err error
	if f.remote {
		blob, err = os.Open(blobPath(work, of.Digest))
	} else {
		blob, err = f.blob(ctx, of)
	}
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	packed := &summer{from: meter.Packed(blob), hash: sha256.New()}
	archive, err := layer.Decompress(packed)
	if err != nil {
		return core.Errorf(core.KindUsage, "local.image", "", "the layer cannot be decompressed: %w", err)
	}
	defer func() { _ = archive.Close() }()
	plain := &summer{from: meter.Plain(archive), hash: sha256.New()}
	if err := tree.Apply(ctx, plain); err != nil {
		return err
	}
	// Both digests need the rest: an archive may end before its layer does, and a layer before its blob.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return err
	}
	if got := packed.sum(); !f.unpacked && got != of.Digest {
		return mismatch("the layer", of.Digest)
	}
	if got := plain.sum(); got != diffID {
		return mismatch("the layer without compression", diffID)
	}
	return nil
}

// summer computes the digest of the bytes that are read.
type summer struct {
	from io.Reader
	hash hash.Hash
}

func (s *summer) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	_, _ = s.hash.Write(p[:n])
	return n, err
}

func (s *summer) sum() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(s.hash.Sum(nil))}
}

// download stores a blob, unless an earlier pull has stored it.
func (s *Store) download(ctx context.Context, from *found, of v1.Descriptor, path string, progress *progress) error {
	if verify(path, of) == nil {
		progress.add(of.Size)
		return nil
	}
	return s.retry(ctx, func() error { return s.downloadFrom(ctx, from, of, path, progress) })
}

// retry repeats work after a temporary error.
func (s *Store) retry(ctx context.Context, work func() error) error {
	delay := s.delay
	for attempt := 1; ; attempt++ {
		err := work()
		if err == nil || ctx.Err() != nil || !repeatable(err) {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("%d attempts failed, the last with: %w", attempts, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
		delay *= 2
	}
}

// repeatable reports whether a download may succeed if it is started again.
func repeatable(err error) bool {
	switch core.KindOf(classify("", err)) { //nolint:exhaustive // other errors do not change
	case core.KindUnavailable, core.KindTimeout:
		return true
	}
	return false
}

// verify returns an error unless the file has the content of the blob.
func verify(path string, of v1.Descriptor) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	content := &summer{from: f, hash: sha256.New()}
	if n, err := io.Copy(io.Discard, content); err != nil || n != of.Size || content.sum() != of.Digest {
		return errors.Join(err, mismatch(path, of.Digest))
	}
	return nil
}

// downloadOnce writes a blob into the file of its beginning. It returns the size of the file, or less if it has added
// nothing.
func (f *found) downloadOnce(
	ctx context.Context, of v1.Descriptor, p *partial, progress *progress,
) (n int64, err error) {
	p.continued = false
	if p.have > 0 {
		ctx = context.WithValue(ctx, partialKey{}, p)
	}
	blob, err := f.blob(ctx, of)
	if err != nil {
		return 0, err
	}
	defer func() { _ = blob.Close() }()
	content := &summer{from: &reported{from: io.LimitReader(blob, of.Size+1), to: progress}, hash: sha256.New()}
	if p.continued {
		n, err = io.CopyN(io.Discard, content, p.have) // it is in the file
	}
	if err == nil {
		err = startAt(p.file, n)
	}
	if err == nil {
		var more int64
		more, err = io.Copy(p.file, content)
		n += more
	}
	if err == nil && (n != of.Size || content.sum() != of.Digest) {
		err = mismatch("the layer", of.Digest)
	}
	if err != nil {
		progress.add(-n)
	}
	return n, err
}

// startAt removes the end of a file, so that writes follow its first n bytes.
func startAt(f *os.File, n int64) error {
	if err := f.Truncate(n); err != nil {
		return err
	}
	_, err := f.Seek(n, io.SeekStart)
	return err
}

// reported reports the bytes that are read.
type reported struct {
	from io.Reader
	to   *progress
}

func (r *reported) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.to.add(int64(n))
	return n, err
}

// progress reports the progress of a pull or a push.
type progress struct {
	to    core.ProgressFunc
	ref   string
	total int64

	mu             sync.Mutex
	name           string
	done, reported int64
}

// step begins a step: "pulling".
func (p *progress) step(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = name
	p.report()
}

// warn reports a warning.
func (p *progress) warn(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to != nil {
		p.to(core.Progress{Step: text, Log: true})
	}
}

// add counts bytes.
func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.done-p.reported >= reportEvery || p.done < p.reported || p.done == p.total {
		p.report()
	}
}

// set replaces the counts.
func (p *progress) set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
	p.done = done
	if p.done-p.reported >= reportEvery || p.done < p.reported || p.done == p.total {
		p.report()
	}
}

func (p *progress) report() {
	p.reported = p.done
	if p.to == nil {
		return
	}
	report := core.Progress{Step: p.name + " " + p.ref}
	if p.name == "pulling" || p.name == "pushing" {
		report.Done, report.Total = p.done, p.total
	}
	p.to(report)
}
