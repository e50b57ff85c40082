package service

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// Apps lists the apps of a provider, with their sandboxes; "" means all providers. They are sorted by name.
func (s Stores) Apps(ctx context.Context, provider string) (Inventory[core.AppInfo], error) {
	listing, err := Sandboxes(s).List(ctx, core.ListFilter{Provider: provider})
	if err != nil {
		return Inventory[core.AppInfo]{}, err
	}
	type key struct{ provider, name string }
	apps := map[key]*core.AppInfo{}
	for _, sb := range listing.Sandboxes {
		if sb.App == "" {
			continue
		}
		at := key{sb.Provider, sb.App}
		if apps[at] == nil {
			apps[at] = &core.AppInfo{Name: sb.App, Provider: sb.Provider, Created: sb.Created}
		}
		apps[at].Sandboxes++
	}
	result := Inventory[core.AppInfo]{Items: []core.AppInfo{}, Failures: listing.Failures}
	keep := s.able(core.CapAppStore)
	if len(s.scope.Labels) == 0 && len(keep) > 0 && (provider == "" || slices.Contains(keep, provider)) {
		known, err := inventory(ctx, s.base, provider, "app ls", core.AppStore.Apps)
		if err != nil {
			return Inventory[core.AppInfo]{}, err
		}
		for _, app := range known.Items {
			at := key{app.Provider, app.Name}
			if apps[at] != nil {
				app.Sandboxes = apps[at].Sandboxes
			}
			apps[at] = &app
		}
		for _, failure := range known.Failures {
			if !slices.ContainsFunc(result.Failures, func(f core.ProviderFailure) bool {
				return f.Provider == failure.Provider
			}) {
				result.Failures = append(result.Failures, failure)
			}
		}
	}
	for _, app := range apps {
		result.Items = append(result.Items, *app)
	}
	slices.SortFunc(result.Items, func(a, b core.AppInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Provider, b.Provider))
	})
	return result, nil
}

// StopApp ends every sandbox of an app at one provider, or at all of them for "". It also ends the app if the provider
// has it as an object. KindNotFound: there is no such app. KindConflict: other owners have sandboxes in the app, and
// allOwners is false; StopApp then ends none.
func (s Stores) StopApp(ctx context.Context, provider, name string, allOwners bool) (err error) {
	record := s.begin("app stop", name)
	record.Provider = provider
	defer func() { s.finish(record, err) }()
	apps, err := s.Apps(ctx, provider)
	if err != nil {
		return err
	}
	apps.Items = slices.DeleteFunc(apps.Items, func(app core.AppInfo) bool { return app.Name != name })
	if len(apps.Items) == 0 {
		for _, f := range apps.Failures {
			return &core.Error{Kind: f.Kind, Op: "app stop", Subject: name, Hint: f.Hint, Err: errors.New(f.Error)}
		}
		return core.Errorf(core.KindNotFound, "app stop", name, "there is no app %q", name).WithHint("sb app ls lists them")
	}
	if !allOwners {
		if err := s.onlyMine(ctx, provider, name); err != nil {
			return err
		}
	}
	var failed []error
	for _, app := range apps.Items {
		failed = append(failed, s.stopApp(ctx, app))
	}
	return core.Wrap("app stop", name, errors.Join(failed...))
}

// onlyMine returns an error for an app in which other owners have sandboxes.
func (s *base) onlyMine(ctx context.Context, provider, name string) error {
	listing, err := Sandboxes{s}.List(ctx, core.ListFilter{Provider: provider, App: name})
	if err != nil {
		return err
	}
	_, others, err := Sandboxes{s}.Mine(listing.Sandboxes)
	if err != nil || len(others) == 0 {
		return err
	}
	return core.Errorf(
		core.KindConflict, "app stop", name, "%d of the %d sandboxes in app %q belong to other owners", len(others),
		len(listing.Sandboxes), name,
	).
		WithHint("sb terminate --app %s ends your own; sb app stop --all-owners %s ends all", name, name)
}

// stopApp ends one app at one provider.
func (s *base) stopApp(ctx context.Context, app core.AppInfo) error {
	listing, err := Sandboxes{s}.List(ctx, core.ListFilter{Provider: app.Provider, App: app.Name})
	if err != nil {
		return err
	}
	if len(s.scope.Labels) == 0 && slices.Contains(s.able(core.CapAppStore), app.Provider) {
		store, err := capable[core.AppStore](s, app.Provider, "app stop")
		if err != nil {
			return err
		}
		if err := store.StopApp(ctx, app.Name); err != nil {
			return err
		}
		for _, sb := range listing.Sandboxes { // each has ended, and its cost depends on its end
			s.finish(s.begin("terminate", sb.Ref()).of(sb), nil)
			s.announceEnd(sb)
		}
		return nil
	}
	var failed []error
	for _, sb := range listing.Sandboxes {
		if err := (Sandboxes{s}).Terminate(ctx, sb.Ref()); err != nil && !errors.Is(err, core.KindNotFound) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
