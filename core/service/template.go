package service

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Templates finds the launch spec of a template by name; found is false if there is none.
type Templates func(name string) (spec core.Spec, found bool, err error)

// instantiate completes a launch with its template, or with the template of the scope's policy. Fields of the launch
// itself stay. Under a policy it may set only a few, see fixedByTemplate.
func (s *base) instantiate(spec *core.Spec) error {
	fixed := s.scope.Policy.Template
	if fixed != "" {
		source := spec.Image + spec.Dockerfile + spec.Snapshot + spec.Checkpoint
		if source != "" || spec.Template != "" && spec.Template != fixed {
			return refuse("starting from", source+spec.Template, "template "+fixed)
		}
		spec.Template = fixed
	}
	name := spec.Template
	if name == "" {
		return nil
	}
	var base core.Spec
	found, err := false, error(nil)
	if s.templates != nil && core.ValidateName("template", name) == nil { // a name is no path
		base, found, err = s.templates(name)
	}
	if err != nil {
		return core.Wrap("launch", name, err)
	}
	if !found {
		if len(s.able(core.CapTemplates)) > 0 {
			return nil // a provider's
		}
		return core.Errorf(core.KindNotFound, "launch", name, "there is no template %q", name).
			WithHint("templates are spec files in the directory templates beside sb's configuration")
	}
	if fixed != "" {
		if err := fixedByTemplate(*spec, base); err != nil {
			return err
		}
	}
	for _, secret := range base.Secrets {
		if secret.Ref == "" && secret.Value.Empty() && !slices.ContainsFunc(spec.Secrets, func(given core.Secret) bool {
			return given.Name == secret.Name
		}) {
			return core.Errorf(
				core.KindUsage, "launch", name, "template %q needs the secret %s, which is not set in this environment", name,
				secret.Name,
			).
				WithHint("export %s before sb starts, or pass it to the launch", secret.Name)
		}
	}
	spec.Template = ""
	complete(spec, base)
	return nil
}

// fixedByTemplate returns an error for fields that a launch cannot set if a policy fixes its template. Name, app,
// labels, variables, secrets, working directory and a shorter lifetime are free.
func fixedByTemplate(spec, base core.Spec) error {
	requested := spec
	requested.Template, requested.Name, requested.App, requested.Workdir = "", "", "", ""
	requested.Labels, requested.Env, requested.Timeout = nil, nil, 0
	requested.Secrets = slices.DeleteFunc(slices.Clone(spec.Secrets), func(secret core.Secret) bool {
		return secret.Ref == ""
	})
	if requested.Provider == core.ProviderAuto || requested.Provider == base.Provider {
		requested.Provider = ""
	}
	text, err := json.Marshal(requested)
	if err != nil {
		return core.Wrap("launch", spec.Name, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return core.Wrap("launch", spec.Name, err)
	}
	if len(fields) > 0 {
		return refuse("choosing", strings.Join(slices.Sorted(maps.Keys(fields)), ", "), "what template "+spec.Template+" has")
	}
	if base.Timeout > 0 && (spec.Timeout == core.NoTimeout || spec.Timeout > base.Timeout) {
		return refuse("lifetime", spec.Timeout.String(), "up to "+base.Timeout.String())
	}
	return nil
}

// complete fills the open fields of s from base.
func complete(s *core.Spec, base core.Spec) {
	base = base.Clone()
	if s.Image+s.Dockerfile+s.Template+s.Snapshot+s.Checkpoint == "" {
		s.Image, s.Dockerfile, s.Snapshot, s.Checkpoint = base.Image, base.Dockerfile, base.Snapshot, base.Checkpoint
	}
	if s.Provider == core.ProviderAuto {
		s.Provider = ""
	}
	for _, f := range core.Fields() {
		switch f.Name {
		case "name", "image", "dockerfile", "template", "snapshot", "checkpoint", "env", "labels", "secrets":
		default:
			f.Fill(s, base)
		}
	}
	s.Env, s.Labels = under(base.Env, s.Env), under(base.Labels, s.Labels)
	for _, secret := range base.Secrets {
		if !slices.ContainsFunc(s.Secrets, func(given core.Secret) bool { return given.Name == secret.Name }) {
			s.Secrets = append(s.Secrets, secret)
		}
	}
}
