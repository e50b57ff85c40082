//go:build linux

package local

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// withVolumes checks the volumes of a spec. It resolves links in their sources, so that the sandbox sees the checked
// directory.
func (p *Provider) withVolumes(spec core.Spec) (core.Spec, error) {
	spec = spec.Clone()
	for i, v := range spec.Volumes {
		if !filepath.IsAbs(v.Source) {
			return spec, core.Errorf(core.KindUnsupported, "local.launch", v.Source, "volumes with names are not there").
				WithHint("give a directory of this machine")
		}
		source, err := filepath.EvalSymlinks(v.Source)
		if err != nil {
			return spec, core.Errorf(core.KindUsage, "local.launch", v.Source, "the volume cannot be read: %w", err)
		}
		if !slices.ContainsFunc(p.opts.HostDirs, func(dir string) bool { return below(source, dir) }) {
			return spec, core.Errorf(
				core.KindUnauthorized, "local.launch", v.Source, "this directory may not be shown in a sandbox",
			)
		}
		if target := filepath.Clean(v.Target); target == "/" || slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(
			dir string,
		) bool {
			return below(target, dir)
		}) {
			return spec, core.Errorf(core.KindUsage, "local.launch", v.Target, "nothing can be mounted there")
		}
		spec.Volumes[i].Source = source
	}
	return spec, nil
}

// below reports whether a clean path is dir or lies in it.
func below(path, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	return err == nil && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}
