//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

var _ core.VolumeStore = (*Provider)(nil)

// volumeFile is the description of a volume.
type volumeFile struct {
	Name    string            `json:"name"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Volumes implements core.VolumeStore. A damaged volume has no time of creation.
func (p *Provider) Volumes(ctx context.Context) ([]core.VolumeInfo, error) {
	names, err := p.store.Volumes().Names()
	if err != nil {
		return nil, stateError("volumes", err)
	}
	list := make([]core.VolumeInfo, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var file volumeFile
		dir, err := p.store.Volumes().Read(name, &file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed after Names
		}
		list = append(list, core.VolumeInfo{
			Name: name, Provider: Name, Created: file.Created, Labels: file.Labels,
			Size: treeSize(filepath.Join(dir, store.VolumeData)),
		})
	}
	return list, nil
}

// CreateVolume implements core.VolumeStore. It refuses a size, because nothing here bounds what a sandbox writes to a
// directory of the host: docs/limits.md.
func (p *Provider) CreateVolume(_ context.Context, name string, opts core.VolumeOptions) (core.VolumeInfo, error) {
	if opts.Version != 0 {
		return core.VolumeInfo{}, core.Errorf(
			core.KindUnsupported, "local.volume", name, "volumes on this machine have no versions",
		)
	}
	if opts.Size != 0 {
		return core.VolumeInfo{}, core.Errorf(
			core.KindUnsupported, "local.volume", name, "this machine cannot limit the size of a volume",
		).WithHint("leave out the size; sb launch --disk limits the files outside of volumes")
	}
	if err := core.ValidateName("volume", name); err != nil {
		return core.VolumeInfo{}, err
	}
	var made volumeFile
	err := p.store.WithVolumes(func() (err error) {
		made, err = p.makeVolume(name, opts.Labels)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return core.VolumeInfo{}, core.Errorf(core.KindConflict, "local.volume", name, "there is a volume %q already", name).
			WithHint("choose another name, or remove it: sb volume rm %s", name)
	}
	info := core.VolumeInfo{Name: name, Provider: Name, Created: made.Created, Labels: made.Labels}
	return info, stateError("volume", err)
}

// makeVolume creates an empty volume. Every user inside may write to it, because the first sandbox decides who owns
// what. The caller is in WithVolumes.
func (p *Provider) makeVolume(name string, labels map[string]string) (volumeFile, error) {
	made := volumeFile{Name: name, Created: time.Now().UTC(), Labels: labels}
	draft, err := p.store.Volumes().Draft()
	if err != nil {
		return made, err
	}
	defer draft.Close()
	data := filepath.Join(draft.Dir, store.VolumeData)
	if err := os.Mkdir(data, 0o700); err != nil {
		return made, err
	}
	if err := os.Chmod(data, 0o777); err != nil { //nolint:gosec // only the launching user can enter the directory above
		return made, err
	}
	return made, draft.Publish(name, made, false)
}

// RemoveVolume implements core.VolumeStore. An interrupted removal leaves a directory that sb prune removes.
func (p *Provider) RemoveVolume(_ context.Context, name string) error {
	if core.ValidateName("volume", name) != nil {
		return noVolume(name)
	}
	var gone string
	err := p.store.WithVolumes(func() error {
		if _, err := os.Lstat(p.store.VolumeDir(name)); err != nil {
			return err
		}
		users, err := p.mountedBy(name)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return core.Errorf(core.KindConflict, "local.volume", name, "%s has it mounted", volumeUsers(users)).
				WithHint("end it first: sb terminate %s", users[0])
		}
		gone, err = p.store.Volumes().Withdraw(name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return noVolume(name)
	}
	if err == nil {
		err = store.RemoveTree(gone)
	}
	return stateError("volume", err)
}
