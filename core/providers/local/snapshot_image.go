//go:build linux

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// imageID returns the id of a snapshot as an image. Each snapshot has its own.
func (f snapshotFile) imageID() (string, error) {
	raw, err := json.Marshal([]any{f.ID, f.Sandbox, f.Created.UnixNano(), f.Root})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// snapshotImages calls do for each intact snapshot over an image, with its id as an image, until do returns false.
func (p *Provider) snapshotImages(do func(id string, s snapshotFile) bool) error {
	names, err := p.store.Snapshots().Names()
	if err != nil {
		return stateError("image", err)
	}
	for _, name := range names {
		var s snapshotFile
		if _, err := p.store.Snapshots().Read(name, &s); err != nil || s.Root == "" {
			continue // removed meanwhile, damaged, or no image
		}
		id, err := s.imageID()
		if err != nil {
			return err
		}
		if !do(id, s) {
			return nil
		}
	}
	return nil
}

// snapshotName returns the name of the snapshot that an image's name means, or "". As in Docker, "base" and
// "base:latest" are the same name.
func snapshotName(ref string) string {
	name := strings.TrimSuffix(image.Familiar(ref), ":latest")
	if core.ValidateName("snapshot", name) != nil {
		return ""
	}
	return name
}

// snapshotOf returns the snapshot that an image's name or id means, or nil. KindUnsupported: there is no image of the
// name, and the snapshot of the name is none. KindConflict: the snapshot is damaged.
func (p *Provider) snapshotOf(ctx context.Context, ref string) (*snapshotFile, error) {
	if name := snapshotName(ref); name != "" {
		var s snapshotFile
		_, err := p.store.Snapshots().Read(name, &s)
		switch {
		case err == nil && s.Root != "":
			return &s, nil
		case err == nil && ref == name:
			return nil, p.refuseHostSnapshot(ctx, name)
		case store.IsDamage(err):
			_, err = p.snapshotFiles(name)
			return nil, err
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, stateError("image", err)
		}
	}
	const enough = 12 // digits of an id
	prefix := strings.TrimPrefix(ref, "sha256:")
	if len(prefix) < enough || strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil, nil
	}
	var found *snapshotFile
	err := p.snapshotImages(func(id string, s snapshotFile) bool {
		if strings.HasPrefix(id, "sha256:"+prefix) {
			found = &s
		}
		return found == nil
	})
	return found, err
}

// refuseHostSnapshot returns the error for a snapshot over this machine's programs where an image is needed, unless an
// image has the same name.
func (p *Provider) refuseHostSnapshot(ctx context.Context, name string) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	if _, err := images.Get(ctx, name); !errors.Is(err, core.KindNotFound) {
		return nil //nolint:nilerr // the use of the image returns the error
	}
	return core.Errorf(core.KindUnsupported, "local.image", name,
		"the snapshot %q is no image: its sandbox has this machine's programs (--image %s), not those of an image",
		name, HostImage).
		WithHint("launch from it: sb launch --snapshot %s; or take a snapshot of a sandbox with an image, such as "+
			"--image debian:stable-slim; %s:latest names the image of a registry", name, name)
}

// free returns KindConflict if a snapshot has the name that an image would get.
func (p *Provider) free(name string) error {
	taken := snapshotName(name)
	if taken == "" {
		return nil
	}
	var s snapshotFile
	if _, err := p.store.Snapshots().Read(taken, &s); err != nil || s.Root == "" {
		return nil //nolint:nilerr // there is none, or it is damaged and so no image
	}
	return core.Errorf(core.KindConflict, "local.image", name, "the name is that of a snapshot").
		WithHint("choose another name, or remove the snapshot: sb snapshot rm %s", taken)
}

// freeForSnapshot returns KindConflict if an image has the name that a snapshot over an image would get.
func (p *Provider) freeForSnapshot(ctx context.Context, name string) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	if _, err := images.Get(ctx, name); errors.Is(err, core.KindNotFound) || errors.Is(err, core.KindUsage) {
		return nil // names such as "a--b" are no names of images
	}
	return core.Errorf(core.KindConflict, "local.snapshot", name, "there is an image %q already", name).
		WithHint("choose another name, or remove the image: sb image rm %s", name)
}

// snapshotInfo describes a snapshot as an image.
func (p *Provider) snapshotInfo(ctx context.Context, images *image.Store, id string, s snapshotFile) core.ImageInfo {
	info := core.ImageInfo{
		ID: id, Names: []string{s.ID}, Provider: Name, Created: s.Created, Size: s.Size, Note: s.Note,
	}
	base, err := images.Get(ctx, s.Root)
	if err != nil {
		info.Note = s.lostImage("image").Error()
	}
	info.Size += core.Bytes(base.Size)
	return info
}

// lostImage returns the error for a snapshot whose image is not stored.
func (f snapshotFile) lostImage(op string) error { return lostImage(op, f.ID, f.Root) }

// withLayer calls do with a file that has the changes of a snapshot as a layer over its image. The same snapshot always
// gives the same bytes. The image is held and the file exists until do returns.
//
// The layer comes from a sandbox with the files of the snapshot: only gVisor can read saved files.
func (p *Provider) withLayer(
	ctx context.Context, s snapshotFile, progress core.ProgressFunc, do func(file string) error,
) (err error) {
	root, err := p.storedRoot(ctx, "image", s.ID, s.Root)
	if err != nil {
		return err
	}
	defer root.release()
	files, err := p.snapshotFiles(s.ID)
	if err != nil {
		return err
	}
	draft, err := p.store.Snapshots().Draft()
	if err != nil {
		return stateError("image", err)
	}
	defer draft.Close()
	if progress != nil {
		progress(core.Progress{Step: "reading the changes of " + s.ID})
	}
	spec := core.Spec{Name: buildPrefix + core.NewName(), Network: core.Network{Mode: core.NetworkNone}}
	id, end, err := p.temporary(ctx, spec, socket.Launch{Root: root.root, RootID: root.id, Files: files})
	if err != nil {
		return err
	}
	unsorted := filepath.Join(draft.Dir, "unsorted")
	err = writeFile(unsorted, func(to io.Writer) error { return p.imageLayer(ctx, id, to) })
	if err = errors.Join(err, end()); err != nil {
		return stateError("image", err)
	}
	sorted := filepath.Join(draft.Dir, "layer")
	err = writeFile(sorted, func(to io.Writer) error {
		in, err := os.Open(unsorted)
		if err != nil {
			return err
		}
		return errors.Join(image.SortLayer(to, in), in.Close(), os.Remove(unsorted))
	})
	if err != nil {
		return stateError("image", err)
	}
	return do(sorted)
}

// imageLayer writes the writable layer of a sandbox as a layer of an image.
func (p *Provider) imageLayer(ctx context.Context, id string, to io.Writer) error {
	out, in := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := p.layer(ctx, id, in)
		_ = in.CloseWithError(err)
		read <- err
	}()
	err := image.Layer(to, out)
	_ = out.CloseWithError(err)
	// An error of the sandbox is the cause of the other.
	if readErr := <-read; readErr != nil && !errors.Is(readErr, err) {
		return readErr
	}
	return err
}

// writeFile makes a file.
func writeFile(name string, content func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

// flat returns a snapshot as an image of the store, with all its files. ref is another name for it; "" is none.
func (p *Provider) flat(
	ctx context.Context, s snapshotFile, ref string, progress core.ProgressFunc,
) (image.Image, error) {
	images, err := p.openImages()
	if err != nil {
		return image.Image{}, err
	}
	id, err := s.imageID()
	if err != nil {
		return image.Image{}, err
	}
	base, err := images.Get(ctx, s.Root)
	if errors.Is(err, core.KindNotFound) {
		return image.Image{}, s.lostImage("image")
	}
	if err != nil {
		return image.Image{}, err
	}
	return images.AddOver(ctx, image.Addition{ID: id, Ref: ref, Created: s.Created}, base,
		func(ctx context.Context, apply func(io.Reader) error) error {
			return p.withLayer(ctx, s, progress, func(file string) error {
				in, err := os.Open(file)
				if err != nil {
					return err
				}
				return errors.Join(apply(in), in.Close())
			})
		})
}
