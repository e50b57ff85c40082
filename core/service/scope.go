package service

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Scope limits one user of a shared Service. The zero value limits nothing.
type Scope struct {
	// Actor replaces Options.Actor: "mcp/9f3c".
	Actor string
	// Labels are added to every launch. A sandbox without one of them is invisible: it is in no list, no reference finds
	// it, and no error names it.
	Labels map[string]string
	// NamePrefix begins the name of every launch; a launch adds it to other names.
	NamePrefix string
	// VolumePrefix begins the name of every volume that a launch mounts or that Stores lists, creates and removes. Other
	// names get it. With Labels and without VolumePrefix, Stores has no volumes. With Labels, a launch cannot use secrets
	// that a provider keeps, because they belong to all users.
	VolumePrefix string
	// MaxSandboxes bounds the live sandboxes that the scope sees and that have Counted; 0 is no bound.
	MaxSandboxes int
	// Counted are the labels of the sandboxes that MaxSandboxes counts, and are put on every launch as Labels are.
	Counted map[string]string
	Policy  LaunchPolicy
}

// LaunchPolicy limits launches. A zero field allows all values.
type LaunchPolicy struct {
	// Provider is the only allowed one. It is the default if the spec names none.
	Provider string
	// Template is the start of every launch. A launch may then set only its name, app and labels, its own variables and
	// secrets, the working directory, and a shorter lifetime.
	Template string
	// Images lists the images that may be started from. With it Dockerfiles, snapshots, checkpoints and Python of a
	// version are refused.
	Images []string
	// GPUs lists GPU types; "none" alone forbids them all.
	GPUs []string
	// Networks lists the modes; the first is the default.
	Networks []core.NetworkMode
	// MaxTimeout is the longest lifetime, and the default.
	MaxTimeout core.Duration
	MaxCPU     float64
	MaxMemory  core.Bytes
	// NoHostPaths refuses paths on the host, except those below HostPaths: directories as volumes, and images in files.
	NoHostPaths bool
	// HostPaths are absolute paths of directories.
	HostPaths []string
}

// Within returns a view of s that is narrowed by scope. The labels add to those of s; the other fields replace those of
// s. The view shares providers, audit log and events with s, and must not be closed. Events, Prune and Providers are
// not narrowed.
func (s *Service) Within(scope Scope) *Service {
	narrow := *s.base
	if scope.Actor != "" {
		narrow.owner.Actor = scope.Actor
	}
	labels := maps.Clone(s.scope.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, scope.Labels)
	scope.Labels = labels
	narrow.scope = scope
	return grouped(&narrow)
}

// sees reports whether a sandbox is visible to this service.
func (s *base) sees(sb core.Sandbox) bool { return hasLabels(sb, s.scope.Labels) }

func hasLabels(sb core.Sandbox, labels map[string]string) bool {
	for key, value := range labels {
		if have, ok := sb.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// admit applies the scope to a launch. It fills in fixed fields and returns an error for forbidden ones.
func (s *base) admit(spec *core.Spec) error {
	if prefix := s.scope.NamePrefix; prefix != "" && !strings.HasPrefix(spec.Name, prefix) {
		if spec.Name == "" {
			spec.Name = core.NewName()
		}
		spec.Name = prefix + spec.Name
	}
	for _, labels := range []map[string]string{s.scope.Labels, s.scope.Counted} {
		for key, value := range labels {
			if spec.Labels == nil {
				spec.Labels = map[string]string{}
			}
			spec.Labels[key] = value
		}
	}
	for _, secret := range spec.Secrets {
		if secret.Ref != "" {
			if err := s.shared("launch"); err != nil {
				return err
			}
		}
	}
	if err := s.scope.Policy.admit(spec); err != nil {
		return err
	}
	for i, volume := range spec.Volumes {
		if !volume.IsPath() {
			spec.Volumes[i].Source = s.volumeName(volume.Source)
		}
	}
	return nil
}

// volumeName returns the name of a volume with the prefix of the scope.
func (s *base) volumeName(name string) string {
	if strings.HasPrefix(name, s.scope.VolumePrefix) {
		return name
	}
	return s.scope.VolumePrefix + name
}

// refuse returns the error for a field that a policy does not allow.
func refuse(field, requested, allowed string) error {
	return core.Errorf(core.KindUnauthorized, "launch", "", "%s %s is not allowed here", field, requested).
		WithHint("allowed: %s", allowed)
}

func (p LaunchPolicy) admit(spec *core.Spec) error {
	if p.Provider != "" {
		if requested := spec.Provider; requested != "" && requested != core.ProviderAuto && requested != p.Provider {
			return refuse("provider", requested, p.Provider)
		}
		spec.Provider = p.Provider
	}
	if len(p.Images) > 0 && p.Template == "" {
		switch {
		case spec.Python != "": // it selects its own image
			return refuse("Python", spec.Python, "images "+strings.Join(p.Images, ", "))
		case spec.Dockerfile+spec.Snapshot+spec.Checkpoint+spec.Template != "":
			return refuse("starting from", spec.Dockerfile+spec.Snapshot+spec.Checkpoint+spec.Template, "images "+
				strings.Join(p.Images, ", "))
		case spec.Image == "":
			spec.Image = p.Images[0]
		case !slices.Contains(p.Images, spec.Image):
			return refuse("image", spec.Image, strings.Join(p.Images, ", "))
		}
	}
	if len(p.GPUs) > 0 && !spec.GPU.IsZero() && !slices.Contains(p.GPUs, spec.GPU.Type) {
		return refuse("GPU", spec.GPU.String(), strings.Join(p.GPUs, ", "))
	}
	if err := p.admitNetwork(spec); err != nil {
		return err
	}
	if p.NoHostPaths {
		if core.ImageFromPath(spec.Image) {
			return refuse("image", spec.Image, "images of registries")
		}
		for _, v := range spec.Volumes {
			if !v.IsPath() {
				continue
			}
			if err := p.admitPath("volume", v.Source, v.Source); err != nil {
				return err
			}
		}
	}
	return p.admitLimits(spec)
}

func (p LaunchPolicy) admitNetwork(spec *core.Spec) error {
	if len(p.Networks) == 0 {
		return nil
	}
	if spec.Network.Mode == core.NetworkDefault {
		spec.Network.Mode = p.Networks[0]
	}
	if !slices.Contains(p.Networks, spec.Network.Mode) {
		allowed := make([]string, len(p.Networks))
		for i, mode := range p.Networks {
			allowed[i] = string(mode)
		}
		return refuse("network", string(spec.Network.Mode), strings.Join(allowed, ", "))
	}
	if spec.Network.Host() && !slices.Contains(p.Networks, core.NetworkAllow) {
		return refuse("network", core.AllowHost, "networks without the host")
	}
	return nil
}

func (p LaunchPolicy) admitLimits(spec *core.Spec) error {
	if p.MaxTimeout > 0 {
		if spec.Timeout == core.NoTimeout || spec.Timeout > p.MaxTimeout {
			return refuse("lifetime", spec.Timeout.String(), "up to "+p.MaxTimeout.String())
		}
		fill(&spec.Timeout, p.MaxTimeout)
	}
	if p.MaxCPU > 0 {
		if spec.CPU > p.MaxCPU {
			return refuse("cpu", fmt.Sprint(spec.CPU), "up to "+fmt.Sprint(p.MaxCPU))
		}
		fill(&spec.CPU, p.MaxCPU)
	}
	if p.MaxMemory > 0 {
		if spec.Memory > p.MaxMemory {
			return refuse("memory", spec.Memory.String(), "up to "+p.MaxMemory.String())
		}
		fill(&spec.Memory, p.MaxMemory)
	}
	return nil
}

// admitTimeout refuses a lifetime beyond the policy's.
func (p LaunchPolicy) admitTimeout(timeout time.Duration) error {
	if most := time.Duration(p.MaxTimeout); most > 0 && (timeout == 0 || timeout > most) {
		return core.Errorf(
			core.KindUnauthorized, "timeout", "", "a lifetime of %s is not allowed here", core.Duration(timeout),
		).WithHint("allowed: up to %s", p.MaxTimeout)
	}
	return nil
}
