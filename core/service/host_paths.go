package service

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// HostPaths says which directories of this machine sandboxes may mount. Directories are absolute paths. The zero value
// allows none.
type HostPaths struct {
	// Dir resolves relative paths: the current directory.
	Dir string
	// Homes are the user's home directories. "~" is the first. They are never mounted themselves.
	Homes []string
	// Allowed are the only directories that may be mounted, with all below them. nil is the default: Dir, and what the
	// user names for a launch.
	Allowed []string
	// Own are the directories of sb's state, cache and configuration. They, what they contain, and what contains them are
	// never mounted.
	Own []string
}

// Absolute returns the clean absolute path of a directory. A relative one is in Dir. "~" is the first of Homes.
func (h HostPaths) Absolute(source string) string {
	if rest, ok := strings.CutPrefix(source, "~"); ok && len(h.Homes) > 0 {
		return filepath.Join(h.Homes[0], rest)
	}
	if !filepath.IsAbs(source) {
		return filepath.Join(h.Dir, source)
	}
	return filepath.Clean(source)
}

// within reports whether a clean path is dir or is in it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// physical returns a directory without links, or as it is if it does not exist.
func physical(dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target
	}
	return filepath.Clean(dir)
}

// inOne reports whether a path without links is in one of the directories.
func inOne(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, physical(dir)) })
}

// never returns why a directory may not be mounted, whatever the configuration says, or "". path has no links.
func (h HostPaths) never(path string) string {
	if path == "/" {
		return "the whole machine cannot be mounted"
	}
	for _, home := range h.Homes {
		home = physical(home)
		if path == home {
			return "the home directory itself cannot be mounted"
		}
		if within(home, path) {
			return "the home directory is in it"
		}
	}
	for _, own := range h.Own {
		if own = physical(own); within(path, own) || within(own, path) {
			return "sb's own files are there, and no sandbox may see them"
		}
	}
	return ""
}

// resolve returns the directory of a volume's source, without links, if it may be mounted. named means that the user
// named it for this launch. The error names the source as it was typed.
func (h HostPaths) resolve(source string, named bool) (string, error) {
	refuse := func(kind core.Kind, format string, args ...any) *core.Error {
		return core.Errorf(kind, "launch", "", "volume "+strings.ReplaceAll(source, "%", "%%")+": "+format, args...)
	}
	if h.Dir == "" && !filepath.IsAbs(source) {
		return "", refuse(core.KindUsage, "a relative path has no meaning here").WithHint("write an absolute path")
	}
	path := h.Absolute(source)
	target, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", refuse(core.KindUsage, "there is no directory %s", path).
			WithHint("make it first, or write a name without a slash for a volume")
	case err != nil:
		return "", refuse(core.KindUsage, "it cannot be mounted: %w", err)
	}
	if why := h.never(target); why != "" {
		return "", refuse(core.KindUnauthorized, "%s", why).WithHint("mount a directory below it")
	}
	switch {
	case h.Allowed != nil && !inOne(target, h.Allowed):
		return "", refuse(core.KindUnauthorized, "the setting host_paths does not allow %s", target).
			WithHint("add it: sb config set host_paths %s", strings.Join(append(slices.Clone(h.Allowed), target), ":"))
	case h.Allowed == nil && !named && (h.Dir == "" || !inOne(target, []string{h.Dir})):
		return "", refuse(core.KindUnauthorized, "%s is not in the current directory", target).
			WithHint("name it on the command line with --volume, or allow it: sb config set host_paths .:%s", target)
	}
	return target, nil
}

// mountable resolves the host directories of a spec, and refuses those that may not be mounted. Under a policy without
// host paths, an error does not tell which paths exist.
func (s *base) mountable(spec *core.Spec, named bool) error {
	policy := s.scope.Policy
	for i, v := range spec.Volumes {
		if !v.IsPath() {
			continue
		}
		if err := policy.admitPath("volume", v.Source, s.hostPaths.Absolute(v.Source)); err != nil {
			return err
		}
		target, err := s.hostPaths.resolve(v.Source, named || policy.NoHostPaths)
		if err != nil {
			return err
		}
		if err := policy.admitPath("volume", v.Source, target); err != nil {
			return err
		}
		spec.Volumes[i].Source = target
	}
	return nil
}

// admitPath refuses a path that the policy does not allow. A path with links is not checked completely.
func (p LaunchPolicy) admitPath(field, source, path string) error {
	if !p.NoHostPaths || inOne(path, p.HostPaths) || slices.ContainsFunc(p.HostPaths, func(dir string) bool {
		return within(path, filepath.Clean(dir))
	}) {
		return nil
	}
	if len(p.HostPaths) == 0 {
		return refuse(field, source, "named volumes; the user can allow directories with sb mcp --allow-path DIR")
	}
	return refuse(field, source, "named volumes, and directories in "+strings.Join(p.HostPaths, ", "))
}
