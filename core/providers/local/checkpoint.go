//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// keptFile is the description beside a checkpoint's image.
type keptFile struct {
	core.Checkpoint
	Kept wire.Kept `json:"kept"`
	// Root is the id of the image that is the sandbox's root directory; "" is this machine's programs.
	Root string `json:"root,omitempty"`
}

// Checkpoint implements core.Checkpointer. A sandbox from a checkpoint continues like one from Fork. A checkpoint
// contains the values of secrets only where processes hold them in memory.
func (p *Provider) Checkpoint(ctx context.Context, id, name string) (core.Checkpoint, error) {
	source, err := p.Get(ctx, id)
	if err != nil {
		return core.Checkpoint{}, err
	}
	if source.State != core.StateRunning {
		return core.Checkpoint{}, notRunning(source)
	}
	if _, err := p.store.Checkpoints().Read(name, nil); err == nil || store.IsDamage(err) {
		return core.Checkpoint{}, checkpointExists(name)
	}
	draft, err := p.store.Checkpoints().Draft()
	if err != nil {
		return core.Checkpoint{}, stateError("checkpoint", err)
	}
	defer draft.Close()
	root, err := p.store.Root(id)
	if err != nil {
		return core.Checkpoint{}, stateError("checkpoint", err)
	}
	release, err := p.holdImage(ctx, root)
	if err != nil {
		return core.Checkpoint{}, err
	}
	defer release()
	kept, err := p.keep(ctx, id, filepath.Join(draft.Dir, store.ImageDir))
	if err != nil {
		return core.Checkpoint{}, err
	}
	if err := store.Seal(filepath.Join(draft.Dir, store.ImageDir)); err != nil {
		return core.Checkpoint{}, stateError("checkpoint", err)
	}
	kept.Secrets, kept.Given = nil, nil
	file := keptFile{Kept: *kept, Root: root, Checkpoint: core.Checkpoint{
		Name: name, Provider: Name, Sandbox: source.ID, Of: source.Name, Created: time.Now(), Size: treeSize(draft.Dir),
		Spec: source.Spec,
	}}
	err = draft.Publish(name, file, false)
	if errors.Is(err, fs.ErrExist) {
		return core.Checkpoint{}, checkpointExists(name)
	}
	return file.Checkpoint, stateError("checkpoint", err)
}

func checkpointExists(name string) error {
	return core.Errorf(core.KindConflict, "local.checkpoint", name, "there is a checkpoint %q already", name).
		WithHint("choose another name, or remove it: sb checkpoint rm %s", name)
}

func noCheckpoint(name string) error {
	return core.Errorf(core.KindNotFound, "local.checkpoint", name, "there is no checkpoint %q", name).
		WithHint("sb checkpoint ls lists them")
}

// Checkpoints implements core.Checkpointer. An unreadable checkpoint has a note.
func (p *Provider) Checkpoints(ctx context.Context) ([]core.Checkpoint, error) {
	names, err := p.store.Checkpoints().Names()
	if err != nil {
		return nil, stateError("checkpoints", err)
	}
	list := make([]core.Checkpoint, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var file keptFile
		dir, err := p.store.Checkpoints().Read(name, &file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed after Names
		}
		if err != nil {
			file.Checkpoint = core.Checkpoint{Name: name, Provider: Name, Size: treeSize(dir), Note: cannotRead(err)}
		}
		list = append(list, file.Checkpoint)
	}
	return list, nil
}

func damagedCheckpoint(name string, why error) error {
	return core.Errorf(core.KindConflict, "local.launch", name, "the checkpoint cannot be used: %w", why).
		WithHint("restore it from a backup, or remove it: sb checkpoint rm %s", name)
}

// RemoveCheckpoint implements core.Checkpointer.
func (p *Provider) RemoveCheckpoint(_ context.Context, name string) error {
	if core.ValidateName("checkpoint", name) != nil {
		return noCheckpoint(name)
	}
	err := p.store.Checkpoints().Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return noCheckpoint(name)
	}
	return stateError("checkpoint", err)
}

// fromCheckpoint makes a launch resume from the checkpoint in its spec.
func (p *Provider) fromCheckpoint(request socket.Launch) (socket.Launch, imageFunc, error) {
	name := request.Spec.Checkpoint
	if core.ValidateName("checkpoint", name) != nil {
		return request, nil, noCheckpoint(name)
	}
	var file keptFile
	dir, err := p.store.Checkpoints().Read(name, &file)
	if errors.Is(err, fs.ErrNotExist) {
		return request, nil, noCheckpoint(name)
	}
	if store.IsDamage(err) {
		return request, nil, damagedCheckpoint(name, err)
	}
	if err != nil {
		return request, nil, stateError("launch", err)
	}
	made := file.Spec
	if spec := request.Spec; spec.Disk != made.Disk || spec.Processes != made.Processes ||
		spec.OpenFiles != made.OpenFiles {
		return request, nil, core.Errorf(core.KindUsage, "local.launch", name,
			"a launch from a checkpoint keeps its limits of disk, processes and open files: %s, %d and %d",
			made.Disk, made.Processes, made.OpenFiles)
	}
	request.Image, request.Spec.Command = filepath.Join(dir, store.ImageDir), made.Command
	file.Kept.Secrets = request.Secrets
	// The check runs while the supervisor prepares itself.
	return request, func(context.Context) (*wire.Kept, error) {
		err := store.Check(request.Image)
		if store.IsDamage(err) {
			return nil, damagedCheckpoint(name, err)
		}
		return &file.Kept, stateError("launch", err)
	}, nil
}
