package service

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// BuildImage builds an image. provider may be "": then it is the configured one, or the first in placement order that
// is set up. The sandboxes of the build have the default limits and network policy, where build.Spec has none.
func (s Stores) BuildImage(
	ctx context.Context, provider string, build core.ImageBuild, progress core.ProgressFunc,
) (built core.ImageInfo, err error) {
	if err := checkBuild(build); err != nil {
		return built, err
	}
	limits := s.defaultLimits(build.Spec)
	build.Spec = s.withDefaults(build.Spec)
	if err := build.Spec.Validate(); err != nil {
		return built, err
	}
	if provider == "" {
		names := s.able(core.CapImageBuild)
		if provider = s.defaults.Provider; !slices.Contains(names, provider) {
			provider = ""
			if up := s.setUp(ctx, names); len(up) > 0 {
				provider = up[0]
			}
		}
	}
	args := map[string]any{
		"dir": build.Dir, "file": build.File, "target": build.Target,
		"args": slices.Sorted(maps.Keys(build.Args)), "secrets": slices.Sorted(maps.Keys(build.Secrets)),
	}
	err = stored(ctx, s.base, provider, "image build", build.Name, args, func(builder core.ImageBuilder) error {
		if p, ok := builder.(core.Provider); ok {
			build.Spec = fit(build.Spec, limits, p.Capabilities())
		}
		if progress == nil {
			progress = func(core.Progress) {}
		}
		built, err = builder.BuildImage(ctx, build, progress)
		return err
	})
	return built, err
}

func checkBuild(b core.ImageBuild) error {
	for field, path := range map[string]string{"dir": b.Dir, "file": b.File} {
		if !filepath.IsAbs(path) || core.HasControl(path) {
			return core.Invalid(field, "%q is not an absolute path", path)
		}
	}
	for name := range b.Args {
		if !core.EnvName(name) {
			return core.Invalid("build-arg", "%q is not the name of an argument", name)
		}
	}
	for id := range b.Secrets {
		if id == "" || core.HasControl(id) {
			return core.Invalid("secret", "%q is not an id", id)
		}
	}
	return nil
}
