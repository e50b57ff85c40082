package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// providerTimeout bounds one provider's time to answer, if several are queried.
const providerTimeout = 10 * time.Second

// Resolve finds a sandbox by a reference: an id, a unique prefix of one, a name, or provider/name. A bare name means
// the first provider in placement order that has it. If an earlier provider does not answer, Resolve returns its error.
// While a sandbox is moved, its name means the source, not the target. KindNotFound: there is none. KindConflict:
// several ids have the prefix. If the provider of provider/name cannot be used, the error has the reason.
func (s Sandboxes) Resolve(ctx context.Context, ref string) (core.Sandbox, error) {
	sandbox, _, err := s.resolve(ctx, ref)
	if err == nil {
		sandbox.Cost = s.costOf(sandbox)
	}
	return sandbox, err
}

func (s *base) resolve(ctx context.Context, ref string) (core.Sandbox, core.Provider, error) {
	if ref == "" {
		return core.Sandbox{}, nil, core.Errorf(core.KindUsage, "resolve", "", "no sandbox was given").WithHint("see: sb ls")
	}
	if name, at, colon := strings.Cut(ref, ":"); colon {
		return core.Sandbox{}, nil, core.Errorf(core.KindUsage, "resolve", ref, "%q is not a sandbox", ref).
			WithHint("SANDBOX:PATH is for copies; write two arguments: %s %s", name, at)
	}
	if name, rest, qualified := strings.Cut(ref, "/"); qualified {
		lazy, err := s.provider(name)
		if err != nil {
			return core.Sandbox{}, nil, err
		}
		if sandbox, p, found, err := s.resolveIfID(ctx, lazy, rest); found {
			return sandbox, p, err
		}
		sandbox, p, err := s.resolveAt(ctx, []*lazyProvider{lazy}, ref, rest)
		if errors.Is(err, core.KindNotFound) {
			err = cmp.Or(s.usable(ctx, name), err)
		}
		return sandbox, p, err
	}
	for _, lazy := range s.lazyProviders {
		if sandbox, p, found, err := s.resolveIfID(ctx, lazy, ref); found {
			return sandbox, p, err
		}
	}
	if source, p, err := s.moving(ctx, ref); !errors.Is(err, core.KindNotFound) {
		return source, p, err
	}
	return s.resolveAt(ctx, s.lazyProviders, ref, ref)
}

// resolveIfID gets a reference with the form of one of a provider's ids directly from that provider. A sandbox's name
// may have this form, too. found is false if there is no such id.
func (s *base) resolveIfID(
	ctx context.Context, lazy *lazyProvider, ref string,
) (sandbox core.Sandbox, p core.Provider, found bool, err error) {
	if !strings.HasPrefix(ref, lazy.factory.IDPrefix) {
		return core.Sandbox{}, nil, false, nil
	}
	sandbox, p, err = s.resolveID(ctx, lazy, ref)
	return sandbox, p, !errors.Is(err, core.KindNotFound), err
}

// resolveID finds a sandbox by an id or a prefix of one.
func (s *base) resolveID(ctx context.Context, lazy *lazyProvider, ref string) (core.Sandbox, core.Provider, error) {
	p, err := lazy.open()
	if err != nil {
		return core.Sandbox{}, nil, err
	}
	sandbox, err := p.Get(ctx, ref)
	if err == nil && !s.sees(sandbox) {
		return core.Sandbox{}, nil, notFound(ref, nil)
	}
	if !errors.Is(err, core.KindNotFound) {
		return sandbox, p, core.Wrap("resolve", ref, err)
	}
	all, err := p.List(ctx)
	if err != nil {
		return core.Sandbox{}, nil, core.Wrap("resolve", ref, err)
	}
	all = slices.DeleteFunc(all, func(sb core.Sandbox) bool { return !strings.HasPrefix(sb.ID, ref) || !s.sees(sb) })
	switch len(all) {
	case 0:
		return core.Sandbox{}, nil, notFound(ref, nil)
	case 1:
		return all[0], p, nil
	}
	var ids []string
	for _, sb := range all {
		ids = append(ids, sb.ID+" ("+sb.Name+")")
	}
	slices.Sort(ids)
	return core.Sandbox{}, nil, core.Errorf(core.KindConflict, "resolve", ref, "%q matches several sandboxes", ref).
		WithHint("use one of %s", strings.Join(ids, ", "))
}

// resolveAt finds a name or an id at the given providers, in their order.
func (s *base) resolveAt(
	ctx context.Context, lazies []*lazyProvider, ref, name string,
) (core.Sandbox, core.Provider, error) {
	var names []string
	var failed error
	for _, lazy := range lazies {
		p, err := lazy.open()
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		sandbox, seen, err := s.findNameAmong(ctx, len(lazies), p, name)
		if err == nil && failed != nil {
			return core.Sandbox{}, nil, core.Errorf(
				core.KindOf(failed), "resolve", ref, "%s has a sandbox %q, but an earlier provider may have one, too: %w",
				lazy.factory.Name, name,
				failed,
			).
				WithHint("to select this one, write %s/%s", lazy.factory.Name, name)
		}
		if err == nil {
			return sandbox, p, nil
		}
		if !errors.Is(err, core.KindNotFound) {
			failed = cmp.Or(failed, err)
		}
		names = append(names, seen...)
		if strings.HasPrefix(name, lazy.factory.IDPrefix) && ref != name {
			return s.resolveID(ctx, lazy, name)
		}
	}
	if failed != nil {
		return core.Sandbox{}, nil, core.Wrap("resolve", ref, failed)
	}
	return core.Sandbox{}, nil, notFound(ref, names)
}

// findNameAmong is findName with a time limit if count is more than one.
func (s *base) findNameAmong(
	ctx context.Context, count int, p core.Provider, name string,
) (core.Sandbox, []string, error) {
	if count > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, providerTimeout)
		defer cancel()
	}
	return s.findName(ctx, p, name)
}

// findName finds a name at one provider. If there is none, it returns the existing names.
func (s *base) findName(ctx context.Context, p core.Provider, name string) (core.Sandbox, []string, error) {
	if finder, ok := p.(core.Finder); ok {
		sandbox, err := finder.FindName(ctx, name)
		if err != nil && !errors.Is(err, core.KindNotFound) {
			return sandbox, nil, err
		}
		if err == nil && s.sees(sandbox) {
			return sandbox, nil, nil
		}
	}
	all, err := p.List(ctx)
	if err != nil {
		return core.Sandbox{}, nil, err
	}
	all = slices.DeleteFunc(all, func(sb core.Sandbox) bool { return !s.sees(sb) })
	var best *core.Sandbox
	var names []string
	for i, sb := range all {
		names = append(names, sb.Name)
		if sb.Name == name && (best == nil || sb.State.Live() && !best.State.Live() ||
			sb.State.Live() == best.State.Live() && sb.Created.After(best.Created)) {
			best = &all[i]
		}
	}
	if best == nil {
		return core.Sandbox{}, names, notFound(name, nil)
	}
	return *best, nil, nil
}

func notFound(ref string, names []string) *core.Error {
	e := core.Errorf(core.KindNotFound, "resolve", ref, "there is no sandbox %q", ref)
	if near := core.Nearest(ref, names); near != "" {
		return e.WithHint("did you mean %q? sb ls --all lists them", near)
	}
	return e.WithHint("sb ls --all lists them")
}
