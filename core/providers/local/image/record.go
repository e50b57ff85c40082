package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// record is the content of image.json.
type record struct {
	Image

	// CRC32C is the checksum of the EROFS file. It finds faults of disks: who can write to the store can also change it.
	CRC32C string `json:"crc32c"`
	// Written is the file's modification time when the checksum was computed.
	Written time.Time `json:"written"`
	// Source is the configuration as the image has it. An image that was built here has none.
	Source json.RawMessage `json:"source,omitempty"`
	// Imported means that no registry is known to have the image.
	Imported bool `json:"imported,omitempty"`
}

// damagedImage returns the error for a damaged image. refs are the references that name it.
func damagedImage(hex string, refs []string, why error) error {
	hint := "remove it and pull it again: sb image rm --provider local sha256:" + hex
	if len(refs) > 0 {
		hint = "pull it again: sb image pull --provider local " + refs[0]
	}
	return core.Errorf(core.KindInternal, "local.image", hex[:min(len(hex), 12)], "the stored image is damaged: %v", why).
		WithHint("%s", hint)
}

// namesOf returns the sorted references of an image.
func namesOf(hex string, refs map[string]string) []string {
	var names []string
	for ref, id := range refs {
		if id == "sha256:"+hex {
			names = append(names, ref)
		}
	}
	slices.Sort(names)
	return names
}

// read reads an image's record, and compares the size of its file. fs.ErrNotExist: it is not stored. The other errors
// are of damagedImage.
func (s *Store) read(hex string, refs map[string]string) (record, error) {
	dir := filepath.Join(s.dir, imagesDir, hex)
	var r record
	// The copy replaces a damaged file. Findings reports the damage.
	_, err := store.ReadJSON(filepath.Join(dir, infoFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(dir); errors.Is(gone, fs.ErrNotExist) {
			return r, gone
		}
		err = &store.DamageError{Path: filepath.Join(dir, infoFile), Why: "the file is missing"}
	}
	file := filepath.Join(dir, rootFile)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(file); err == nil && info.Size() != r.Size {
			err = fmt.Errorf("%s has %d bytes instead of %d", file, info.Size(), r.Size)
		}
	}
	names := namesOf(hex, refs)
	if err != nil {
		return r, damagedImage(hex, names, err)
	}
	r.Path, r.Refs = file, names
	return r, nil
}

// sound returns nil if the image's file has the modification time of its record. After a copy of the store the time
// differs; then sound compares the checksum, and records the new time.
func (s *Store) sound(ctx context.Context, hex string, r record) error {
	info, err := os.Stat(r.Path)
	if err != nil {
		return damagedImage(hex, r.Refs, err)
	}
	if info.ModTime().Equal(r.Written) {
		return nil
	}
	if err := r.verify(ctx, hex); err != nil {
		return err
	}
	unlock, err := s.tryLock(filepath.Dir(r.Path))
	if err != nil {
		return nil //nolint:nilerr // the next use compares again
	}
	defer unlock()
	r.Written = info.ModTime()
	_ = r.write(filepath.Dir(r.Path)) // likewise
	return nil
}

// verify compares the checksum of the image's file.
func (r record) verify(ctx context.Context, hex string) error {
	f, err := os.Open(r.Path)
	if err != nil {
		return damagedImage(hex, r.Refs, err)
	}
	defer func() { _ = f.Close() }()
	sum, err := checksum(ctx, f)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return damagedImage(hex, r.Refs, err)
	case sum != r.CRC32C:
		return damagedImage(hex, r.Refs, fmt.Errorf("%s has another checksum", r.Path))
	}
	return nil
}

// write writes the record into the directory of the image. The caller holds the image's lock.
func (r record) write(dir string) error {
	r.Refs = nil // refs.json has them
	return store.WriteJSON(filepath.Join(dir, infoFile), r, true)
}

// checksum returns the CRC-32C of a file in hexadecimal.
func checksum(ctx context.Context, f io.Reader) (string, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, err := io.CopyBuffer(sum, struct{ io.Reader }{&interruptible{ctx, f}}, make([]byte, 1<<20))
	return fmt.Sprintf("%08x", sum.Sum32()), err
}

// interruptible ends a read after the end of a context.
type interruptible struct {
	ctx  context.Context //nolint:containedctx // the reader ends with it
	from io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

// Check verifies the checksums of all images, and of refs.json. It returns the stored images, and an error for each
// damaged file. It reads every file whole: about a second for each gigabyte.
func (s *Store) Check(ctx context.Context) (sound []Image, damage []error, err error) {
	refs, err := s.refs()
	if err != nil {
		return nil, []error{err}, nil
	}
	if lost, _ := store.ReadJSON(filepath.Join(s.dir, refsFile), &map[string]string{}); lost != nil {
		damage = append(damage, damagedRefs(lost))
	}
	ids, err := s.ids()
	if err != nil {
		return nil, nil, err
	}
	for _, hex := range ids {
		r, err := s.read(hex, refs)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = r.verify(ctx, hex)
		}
		if ctx.Err() != nil {
			return sound, damage, ctx.Err()
		}
		if _, gone := os.Lstat(filepath.Join(s.dir, imagesDir, hex)); errors.Is(gone, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			damage = append(damage, err)
			continue
		}
		if copyDamage, _ := store.ReadJSON(filepath.Join(filepath.Dir(r.Path), infoFile), &record{}); copyDamage != nil {
			damage = append(damage, damagedImage(hex, r.Refs, copyDamage))
		}
		sound = append(sound, r.Image)
	}
	return sound, damage, nil
}
