//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/build"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// notRunningAnyMore is the reason for a leftover of a running sandbox.
const notRunningAnyMore = "its sandbox is no longer running"

// Leftovers implements core.Sweeper. It finds:
//   - directories of sandboxes that never got a lease, and of killed spares
//   - incomplete checkpoints, snapshots, volumes, pulls and builds
//   - empty control groups without a sandbox
//   - sockets, processes and writable layers of sandboxes that do not run
//   - names of removed sandboxes
//   - images without a name or use
//
// Saved files that a user may need are not leftovers.
func (p *Provider) Leftovers(ctx context.Context) ([]core.Leftover, error) {
	ids, err := p.store.IDs()
	if err != nil {
		return nil, stateError("prune", err)
	}
	var found []core.Leftover
	add := func(path, why string) {
		found = append(found, core.Leftover{Provider: Name, Subject: path, Why: why, Size: treeSize(path)})
	}
	dead := map[string]bool{} // the rest of it goes with the directory
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		if _, err := p.store.ReadLease(id); errors.Is(err, fs.ErrNotExist) && !store.SavesIn(p.store.Dir(id)).Any() &&
			p.store.Abandoned(id, p.store.Dir(id)) {
			add(p.store.Dir(id), "a launch was interrupted")
			dead[id] = true
		}
	}
	for _, id := range ids {
		if path := p.store.RuntimeDir(id); !dead[id] && p.store.Abandoned(id, path) {
			add(path, notRunningAnyMore)
			dead[id] = true
		}
	}
	overlays := filepath.Dir(p.overlayDir("x"))
	entries, err := os.ReadDir(overlays)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, stateError("prune", err)
	}
	for _, e := range entries {
		path := filepath.Join(overlays, e.Name())
		if store.ValidID(e.Name()) && !dead[e.Name()] && p.store.Abandoned(e.Name(), path) {
			add(path, notRunningAnyMore)
		}
	}
	for what, shelf := range map[string]*store.Shelf{
		"checkpoint": p.store.Checkpoints(), "snapshot": p.store.Snapshots(), "volume": p.store.Volumes(),
		"virtual environment": p.store.Venvs(),
	} {
		if err := shelfLeftovers(what, shelf, add); err != nil {
			return found, stateError("prune", err)
		}
	}
	if err := p.imageLeftovers(ctx, add); err != nil {
		return found, err
	}
	builds, err := build.Leftovers(p.store.BuildDir())
	if err != nil {
		return found, stateError("prune", err)
	}
	for _, dir := range builds {
		add(dir, "the build of an image was interrupted")
	}
	for _, dir := range p.abandonedGroups() {
		found = append(found, core.Leftover{Provider: Name, Subject: dir, Why: "an empty control group without a sandbox"})
	}
	names, err := p.store.Names()
	if err != nil {
		return found, stateError("prune", err)
	}
	for name, id := range names {
		_, err := os.Stat(p.store.Dir(id))
		// A sandbox that is being removed loses its name first.
		if still, nameErr := p.store.Named(name); errors.Is(err, fs.ErrNotExist) && nameErr == nil && still == id {
			found = append(
				found, core.Leftover{Provider: Name, Subject: nameSubject + name, Why: "the sandbox that had the name is gone"},
			)
		}
	}
	return found, nil
}

// shelfLeftovers finds incomplete entries. A complete entry that cannot be read is no leftover, because a part of it
// may still be useful. Users remove it by its name.
func shelfLeftovers(what string, shelf *store.Shelf, add func(path, why string)) error {
	drafts, err := shelf.Abandoned()
	if err != nil {
		return err
	}
	for _, dir := range drafts {
		add(dir, "a "+what+" was interrupted")
	}
	return nil
}

// imageLeftovers finds incomplete pulls, and unused images without a name.
func (p *Provider) imageLeftovers(ctx context.Context, add func(path, why string)) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	left, err := images.Leftovers(ctx)
	for dir, id := range left {
		switch {
		case id == "":
			add(dir, "a pull of an image was interrupted")
		case p.unused(id, id) == nil:
			add(dir, "no name refers to the image "+id)
		}
	}
	return stateError("prune", err)
}

// nameSubject is the prefix of Subject for a leftover name.
const nameSubject = "name "

// Sweep implements core.Sweeper. It removes leftover only if Leftovers still finds it.
func (p *Provider) Sweep(ctx context.Context, leftover core.Leftover) error {
	still, err := p.Leftovers(ctx)
	if err != nil {
		return err
	}
	for _, l := range still {
		if l.Subject != leftover.Subject {
			continue
		}
		if name, ok := cutName(l.Subject); ok {
			id, err := p.store.Named(name)
			if err != nil {
				return nil //nolint:nilerr // it is gone already
			}
			return stateError("prune", p.store.Release(name, id))
		}
		if id := filepath.Base(filepath.Dir(l.Subject)); store.ValidID(id) && l.Subject == p.store.RuntimeDir(id) {
			return p.clearDead(ctx, id)
		}
		if id := filepath.Base(l.Subject); store.ValidID(id) && l.Subject == p.store.Dir(id) {
			return p.forgetDead(ctx, id)
		}
		if strings.HasPrefix(filepath.Base(l.Subject), p.store.GroupName("")) {
			return stateError("prune", (&cgroup.Group{Dirs: []string{l.Subject}}).Remove())
		}
		if strings.HasPrefix(l.Subject, p.store.ImagesDir()+string(filepath.Separator)) {
			return p.clearImage(l.Subject)
		}
		return stateError("prune", store.RemoveTree(l.Subject))
	}
	return core.Errorf(core.KindNotFound, "local.prune", leftover.Subject, "it is no longer a leftover")
}

// clearDead clears a sandbox that has no supervisor. It kills processes that still run.
func (p *Provider) clearDead(ctx context.Context, id string) error {
	return p.ifDead(id, func() error { return p.clear(ctx, id) })
}

// forgetDead removes a sandbox that has no supervisor and no lease.
func (p *Provider) forgetDead(ctx context.Context, id string) error {
	if err := p.ifDead(id, func() error { return p.forget(ctx, id, "") }); err != nil {
		return err
	}
	if p.store.Locked(id) {
		return nil
	}
	// An interrupted removal may have removed the lock before the directory.
	return stateError("prune", store.RemoveTree(p.store.Dir(id)))
}

// ifDead calls do with the lock of a sandbox, unless another client has started or removed the sandbox.
func (p *Provider) ifDead(id string, do func() error) error {
	lock, err := p.store.Lock(id)
	if errors.Is(err, store.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return stateError("prune", err)
	}
	defer func() { _ = lock.Close() }()
	return stateError("prune", do())
}

// clearImage removes a leftover of the images.
func (p *Provider) clearImage(dir string) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	return stateError("prune", images.Clear(dir, func(id string) error { return p.unused(id, id) }))
}

func cutName(subject string) (string, bool) {
	if len(subject) > len(nameSubject) && subject[:len(nameSubject)] == nameSubject {
		return subject[len(nameSubject):], true
	}
	return "", false
}

// treeSize returns the size of the readable files in a tree.
func treeSize(root string) core.Bytes {
	var size core.Bytes
	_ = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // only an estimate is wanted
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += core.Bytes(info.Size())
		}
		return nil
	})
	return size
}
