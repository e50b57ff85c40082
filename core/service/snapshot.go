package service

import (
	"context"
	"path"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// snapshotOwner returns the provider that claims a snapshot. Otherwise it returns the only one that lists its id or
// name, or "".
func (s *base) snapshotOwner(ctx context.Context, id string) string {
	for _, lazy := range s.lazyProviders {
		p, err := lazy.open()
		if err != nil {
			continue
		}
		if finder, ok := p.(core.SnapshotFinder); ok {
			if has, err := finder.HasSnapshot(ctx, id); err == nil && has {
				return lazy.factory.Name
			}
		}
	}
	found, err := Stores{s}.Snapshots(ctx, "")
	if err != nil {
		return ""
	}
	owner := ""
	for _, snapshot := range found.Items {
		if snapshot.ID == id || snapshot.Name == id {
			if owner != "" && owner != snapshot.Provider {
				return ""
			}
			owner = snapshot.Provider
		}
	}
	return owner
}

// Snapshot saves the filesystem of a sandbox, or one directory of it.
func (s Sandboxes) Snapshot(
	ctx context.Context, ref string, opts core.SnapshotOptions,
) (snapshot core.Snapshot, err error) {
	if err := validateSnapshot(opts); err != nil {
		return core.Snapshot{}, err
	}
	err = s.act(ctx, "snapshot", ref, snapshotArgs(opts), func(sb core.Sandbox, p core.Provider) error {
		snapshotter, err := capable[core.Snapshotter](s.base, sb.Provider, "snapshot")
		if err != nil {
			return err
		}
		if (opts.TTL != 0 || opts.NoExpiry) && !p.Capabilities().Can(core.CapSnapshotTTL) {
			return s.unsupported(sb.Provider, "snapshot", "--ttl", core.CapSnapshotTTL)
		}
		if opts.Path != "" && !p.Capabilities().Can(core.CapSnapshotPath) {
			return s.unsupported(sb.Provider, "snapshot", "--path", core.CapSnapshotPath)
		}
		snapshot, err = snapshotter.Snapshot(ctx, sb.ID, opts)
		return err
	})
	return snapshot, err
}

func validateSnapshot(o core.SnapshotOptions) error {
	switch {
	case o.Name != "" && (core.HasControl(o.Name) || o.Name[0] == '-'):
		return core.Invalid("name", "%q is not a valid name for a snapshot", o.Name)
	case o.TTL < 0 || o.TTL > 0 && o.TTL < time.Second || o.TTL > core.MaxLifetime:
		return core.Invalid("ttl", "%s is not between one second and ten years", o.TTL)
	case o.TTL != 0 && o.NoExpiry:
		return core.Invalid("ttl", "it cannot expire after %s and be kept without a limit", o.TTL)
	case o.Path != "" && !path.IsAbs(o.Path):
		return core.Invalid("path", "%q is not an absolute path", o.Path)
	}
	return nil
}

// snapshotArgs returns the audit log's arguments of the options.
func snapshotArgs(o core.SnapshotOptions) map[string]any {
	args := map[string]any{"name": o.Name}
	if o.TTL != 0 {
		args["ttl"] = core.Duration(o.TTL)
	}
	if o.NoExpiry {
		args["no_expiry"] = true
	}
	if o.Path != "" {
		args["path"] = o.Path
	}
	return args
}

// Snapshots lists the snapshots that a provider keeps; "" means all providers.
func (s Stores) Snapshots(ctx context.Context, provider string) (Inventory[core.Snapshot], error) {
	return inventory(ctx, s.base, provider, "snapshot ls", core.SnapshotStore.Snapshots)
}

// RemoveSnapshot removes a snapshot. provider may be "" when only one that is set up keeps snapshots.
func (s Stores) RemoveSnapshot(ctx context.Context, provider, id string) error {
	if provider == "" {
		provider = s.snapshotOwner(ctx, id)
	}
	return stored(ctx, s.base, provider, "snapshot rm", id, nil, func(store core.SnapshotStore) error {
		return store.RemoveSnapshot(ctx, id)
	})
}
