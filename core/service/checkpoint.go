package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Checkpoint saves a running sandbox, memory and files, under a name; "" makes a name from the sandbox's name and the
// time.
func (s Sandboxes) Checkpoint(ctx context.Context, ref, name string) (checkpoint core.Checkpoint, err error) {
	args := map[string]any{"name": name}
	err = s.act(ctx, "checkpoint", ref, args, func(sb core.Sandbox, _ core.Provider) error {
		checkpointer, err := capable[core.Checkpointer](s.base, sb.Provider, "checkpoint")
		if err != nil {
			return err
		}
		if name == "" {
			stamp := s.now().UTC().Format("-20060102-150405")
			name = sb.Name[:min(len(sb.Name), core.MaxName-len(stamp))] + stamp
			args["name"] = name
		}
		if err := core.ValidateName("name", name); err != nil {
			return err
		}
		checkpoint, err = checkpointer.Checkpoint(ctx, sb.ID, name)
		return err
	})
	return checkpoint, err
}

// Checkpoints lists the checkpoints that a provider keeps, oldest first; "" means all providers.
func (s Stores) Checkpoints(ctx context.Context, provider string) (Inventory[core.Checkpoint], error) {
	found, err := gather(ctx, s.base, provider, "checkpoint ls", core.Checkpointer.Checkpoints)
	if err != nil {
		return found, err
	}
	found.Items = slices.DeleteFunc(found.Items, func(c core.Checkpoint) bool {
		return !hasLabels(core.Sandbox{Labels: c.Spec.Labels}, s.scope.Labels)
	})
	slices.SortFunc(found.Items, func(a, b core.Checkpoint) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return found, ctx.Err()
}

// RemoveCheckpoint removes a checkpoint: a name, or provider/name. provider may be "" for the first that has it.
func (s Stores) RemoveCheckpoint(ctx context.Context, provider, ref string) (err error) {
	record := s.begin("checkpoint rm", ref)
	defer func() { s.finish(record, err) }()
	checkpoint, err := s.findCheckpoint(ctx, provider, ref)
	if err != nil {
		return err
	}
	record.Provider = checkpoint.Provider
	checkpointer, err := capable[core.Checkpointer](s.base, checkpoint.Provider, "checkpoint rm")
	if err != nil {
		return err
	}
	return core.Wrap("checkpoint rm", ref, checkpointer.RemoveCheckpoint(ctx, checkpoint.Name))
}

// findCheckpoint finds a checkpoint by NAME or provider/NAME, at one provider or, with "", at the first that has it.
func (s *base) findCheckpoint(ctx context.Context, provider, ref string) (core.Checkpoint, error) {
	name := ref
	if at, rest, qualified := strings.Cut(ref, "/"); qualified {
		provider, name = at, rest
	}
	if provider == core.ProviderAuto {
		provider = ""
	}
	found, err := Stores{s}.Checkpoints(ctx, provider)
	if err != nil {
		return core.Checkpoint{}, core.Wrap("checkpoint", ref, err)
	}
	var names []string
	for _, c := range found.Items {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	for _, failure := range found.Failures {
		return core.Checkpoint{}, core.Errorf(failure.Kind, "checkpoint", ref, "%s", failure.Error).
			WithHint("%s", failure.Hint)
	}
	if c, err := s.unlistedCheckpoint(ctx, provider, name); !errors.Is(err, core.KindNotFound) {
		return c, err
	}
	missing := core.Errorf(core.KindNotFound, "checkpoint", ref, "there is no checkpoint %q", ref)
	if near := core.Nearest(name, names); near != "" {
		return core.Checkpoint{}, missing.WithHint("did you mean %q? sb checkpoint ls lists them", near)
	}
	return core.Checkpoint{}, missing.WithHint("sb checkpoint ls lists them")
}

// unlistedCheckpoint looks a checkpoint up at providers that have more checkpoints than they list, or at one of them.
func (s *base) unlistedCheckpoint(ctx context.Context, provider, id string) (core.Checkpoint, error) {
	for _, lazy := range s.lazyProviders {
		if provider != "" && provider != lazy.factory.Name {
			continue
		}
		p, err := lazy.open()
		if err != nil {
			continue // listing has reported it
		}
		finder, ok := p.(core.CheckpointFinder)
		if !ok {
			continue
		}
		found, err := finder.FindCheckpoint(ctx, id)
		if err == nil && !hasLabels(core.Sandbox{Labels: found.Spec.Labels}, s.scope.Labels) ||
			errors.Is(err, core.KindNotFound) {
			continue
		}
		return found, core.Wrap("checkpoint", id, err)
	}
	return core.Checkpoint{}, core.Errorf(core.KindNotFound, "checkpoint", id, "there is no checkpoint %q", id)
}

// inherit completes a launch from a checkpoint with the original sandbox's fields. A checkpoint keeps no secrets beside
// the memory. Commands started later have the secrets of this launch.
func (s *base) inherit(ctx context.Context, spec *core.Spec) error {
	if spec.Checkpoint == "" {
		return nil
	}
	for _, name := range []string{
		"disk", "processes", "open_files", "volumes", "gpu", "python", "pip", "apt", "command", "modal",
	} {
		if !core.FieldNamed(name).IsZero(*spec) {
			return core.Invalid(name, "a launch from a checkpoint cannot change it")
		}
	}
	checkpoint, err := s.findCheckpoint(ctx, spec.Provider, spec.Checkpoint)
	if err != nil {
		return err
	}
	kept := checkpoint.Spec.Clone()
	spec.Provider, spec.Checkpoint = checkpoint.Provider, checkpoint.Name
	for _, name := range []string{"disk", "processes", "open_files", "volumes", "gpu", "modal"} {
		core.FieldNamed(name).Copy(spec, kept)
	}
	for _, name := range []string{
		"persist", "app", "cpu", "memory", "timeout", "idle_timeout", "workdir", "user", "network",
	} {
		core.FieldNamed(name).Fill(spec, kept)
	}
	if len(spec.Ports) == 0 {
		for _, port := range kept.Ports {
			port.Host = 0 // the source sandbox may still use that one
			spec.Ports = append(spec.Ports, port)
		}
	}
	spec.Env = under(kept.Env, spec.Env)
	spec.Labels = under(kept.Labels, spec.Labels)
	return nil
}

// under returns base with the entries of over added. Entries of over win.
func under(base, over map[string]string) map[string]string {
	if base == nil {
		return over
	}
	merged := maps.Clone(base)
	maps.Copy(merged, over)
	return merged
}

// pruneCheckpoints removes the checkpoints older than a span, for Prune.
func (s *base) pruneCheckpoints(ctx context.Context, opts PruneOptions, report *core.PruneReport) error {
	found, err := Stores{s}.Checkpoints(ctx, "")
	if err != nil {
		return err
	}
	report.Failures = append(report.Failures, found.Failures...)
	for _, c := range found.Items {
		if s.now().Sub(c.Created) < opts.OlderThan {
			continue
		}
		if !opts.DryRun {
			if err := (Stores{s}).RemoveCheckpoint(ctx, c.Provider, c.Name); err != nil && !errors.Is(err, core.KindNotFound) {
				report.Failures = append(report.Failures, failure(c.Provider, err))
				continue
			}
		}
		report.Checkpoints = append(report.Checkpoints, c)
	}
	return nil
}
