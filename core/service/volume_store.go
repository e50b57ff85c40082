package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Volumes lists the volumes that a provider keeps; "" means all providers. A scope with a prefix has only its own.
func (s Stores) Volumes(ctx context.Context, provider string) (Inventory[core.VolumeInfo], error) {
	found, err := inventory(ctx, s.base, provider, "volume ls", core.VolumeStore.Volumes)
	found.Items = slices.DeleteFunc(found.Items, func(v core.VolumeInfo) bool {
		return !strings.HasPrefix(v.Name, s.scope.VolumePrefix)
	})
	return found, err
}

// CreateVolume makes an empty volume. With provider "", it is the configured one, or the first that is set up and keeps
// volumes, where a launch would put the sandbox.
func (s Stores) CreateVolume(
	ctx context.Context, provider, name string, opts core.VolumeOptions,
) (made core.VolumeInfo, err error) {
	if opts.Version < 0 {
		return core.VolumeInfo{}, core.Invalid("version", "%d is not a version", opts.Version)
	}
	if opts.Size < 0 {
		return core.VolumeInfo{}, core.Invalid("size", "%d is not a size", opts.Size)
	}
	if name != "" {
		name = s.volumeName(name)
	}
	args := map[string]any{}
	if opts.Version != 0 {
		args["version"] = opts.Version
	}
	if opts.Size != 0 {
		args["size"] = opts.Size
	}
	if len(opts.Labels) > 0 {
		args["labels"] = opts.Labels
	}
	if provider == "" && s.shared("volume create") == nil {
		provider = s.volumeProvider(ctx)
	}
	err = stored(ctx, s.base, provider, "volume create", name, args, func(store core.VolumeStore) error {
		made, err = store.CreateVolume(ctx, name, opts)
		return err
	})
	return made, err
}

// volumeProvider returns the provider of a volume that names none, or "" if none is set up.
func (s Stores) volumeProvider(ctx context.Context) string {
	names := s.able(core.CapVolumeStore)
	if slices.Contains(names, s.defaults.Provider) {
		return s.defaults.Provider
	}
	if up := s.setUp(ctx, names); len(up) > 0 {
		return up[0]
	}
	return ""
}

// findVolume returns the provider that keeps a volume: the named one, or with "" the only one with a volume of that
// name. Otherwise it returns "", or an error that names the providers.
func (s Stores) findVolume(ctx context.Context, provider, op, name string) (string, error) {
	if provider != "" {
		return provider, nil
	}
	found, err := s.Volumes(ctx, "")
	if err != nil {
		return "", err
	}
	var at []string
	for _, v := range found.Items {
		if v.Name == name {
			at = append(at, v.Provider)
		}
	}
	switch {
	case len(at) == 1:
		return at[0], nil
	case len(at) > 1:
		return "", core.Errorf(core.KindUsage, op, name, "several providers have a volume %q", name).
			WithHint("%s", useProvider(at))
	}
	return s.volumeProvider(ctx), nil
}

// RemoveVolume removes a volume with all that is on it. With provider "" it is the one that has the volume.
func (s Stores) RemoveVolume(ctx context.Context, provider, name string) error {
	if name != "" {
		name = s.volumeName(name)
	}
	if s.shared("volume rm") == nil {
		var err error
		if provider, err = s.findVolume(ctx, provider, "volume rm", name); err != nil {
			return err
		}
	}
	return stored(ctx, s.base, provider, "volume rm", name, nil, func(store core.VolumeStore) error {
		return store.RemoveVolume(ctx, name)
	})
}

// VolumeUse is a volume with the sandboxes that mount it, now or after their next start.
type VolumeUse struct {
	core.VolumeInfo

	UsedBy []VolumeUser `json:"used_by"`
}

// VolumeUser is a sandbox with a mounted volume.
type VolumeUser struct {
	Sandbox  string     `json:"sandbox"`
	Name     string     `json:"name"`
	State    core.State `json:"state"`
	Target   string     `json:"target"`
	ReadOnly bool       `json:"read_only,omitempty"`
}

// InspectVolume returns a volume and its sandboxes. With provider "" it is the one that has the volume.
func (s Stores) InspectVolume(ctx context.Context, provider, name string) (VolumeUse, error) {
	const op = "volume inspect"
	provider, err := s.findVolume(ctx, provider, op, name)
	if err != nil {
		return VolumeUse{}, err
	}
	found, err := s.volumeUses(ctx, provider)
	if err != nil {
		return VolumeUse{}, core.Wrap(op, name, err)
	}
	for _, v := range found {
		if v.Name == name {
			return v, nil
		}
	}
	return VolumeUse{}, core.Errorf(core.KindNotFound, op, name, "there is no volume %q", name).
		WithHint("sb volume ls lists them")
}

// volumeUses returns the volumes of a provider with their sandboxes.
func (s Stores) volumeUses(ctx context.Context, provider string) ([]VolumeUse, error) {
	found, err := s.Volumes(ctx, provider)
	if err == nil && len(found.Failures) > 0 {
		err = unavailable(found.Failures[0])
	}
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	listing, err := Sandboxes(s).List(ctx, core.ListFilter{Provider: provider, All: true})
	if err == nil && len(listing.Failures) > 0 {
		err = unavailable(listing.Failures[0])
	}
	if err != nil {
		return nil, err
	}
	uses := make([]VolumeUse, 0, len(found.Items))
	for _, v := range found.Items {
		use := VolumeUse{VolumeInfo: v, UsedBy: []VolumeUser{}}
		for _, sb := range listing.Sandboxes {
			if sb.Provider != v.Provider || !sb.State.Live() && !sb.Spec.Persist {
				continue
			}
			for _, mounted := range sb.Spec.Volumes {
				if !mounted.IsPath() && mounted.Source == v.Name {
					use.UsedBy = append(use.UsedBy, VolumeUser{sb.ID, sb.Name, sb.State, mounted.Target, mounted.ReadOnly})
				}
			}
		}
		uses = append(uses, use)
	}
	return uses, nil
}

// unavailable returns a provider's failure as an error.
func unavailable(f core.ProviderFailure) error {
	return core.Errorf(f.Kind, f.Provider, "", "%s", f.Error).WithHint("%s", f.Hint)
}

// UnusedVolumes returns the volumes of a provider that no sandbox mounts; "" means all providers. Providers that fail
// are left out.
func (s Stores) UnusedVolumes(ctx context.Context, provider string) ([]core.VolumeInfo, error) {
	names := []string{provider}
	if provider == "" {
		names = s.setUp(ctx, s.able(core.CapVolumeStore))
	}
	unused := []core.VolumeInfo{}
	var failed error
	for _, name := range names {
		uses, err := s.volumeUses(ctx, name)
		failed = errors.Join(failed, core.Wrap("volume prune", name, err))
		for _, use := range uses {
			if len(use.UsedBy) == 0 {
				unused = append(unused, use.VolumeInfo)
			}
		}
	}
	return unused, failed
}

// The sandbox of OpenVolume.
const (
	// VolumeTarget is where the volume is mounted.
	VolumeTarget = "/volume"
	// volumeLifetime ends the sandbox if this process is killed.
	volumeLifetime = core.Duration(2 * time.Hour)
)

// OpenVolume launches a sandbox that mounts a volume at VolumeTarget, so that its files can be copied like those of
// other sandboxes. The volume must exist. With provider "" it is the one that has the volume. The caller terminates the
// sandbox.
func (s Stores) OpenVolume(
	ctx context.Context, provider, name string, readOnly bool, progress core.ProgressFunc,
) (core.Sandbox, error) {
	const op = "volume cp"
	if err := s.shared(op); err != nil {
		return core.Sandbox{}, err
	}
	use, err := s.InspectVolume(ctx, provider, name)
	if err != nil {
		return core.Sandbox{}, err
	}
	spec := core.Spec{
		Provider: use.Provider, Name: "volume-" + core.NewName(), Timeout: volumeLifetime, User: "0",
		Volumes: []core.Volume{{Source: name, Target: VolumeTarget, ReadOnly: readOnly}},
		Network: core.Network{Mode: core.NetworkNone},
	}
	if caps, err := Providers(s).Capabilities(use.Provider); err == nil && !caps.Can(core.CapUser) {
		spec.User = ""
	}
	sandbox, err := Sandboxes(s).Launch(ctx, spec, LaunchOptions{Bound: true, Progress: progress})
	return sandbox, core.Wrap(op, name, err)
}
