package service

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestScopeHidesWhatIsNotItsOwn(t *testing.T) {
	s, one, _ := service(t, Options{})
	mine, theirs := map[string]string{"owner": "me"}, map[string]string{"owner": "them"}
	one.boxes = []core.Sandbox{
		{ID: "one-0", Name: "dev", Provider: "one", State: core.StateRunning, Labels: theirs},
		{ID: "one-1", Name: "dev", Provider: "one", State: core.StateExited, Labels: mine},
		{ID: "one-2", Name: "secret-project", Provider: "one", State: core.StateRunning, Labels: theirs},
		{ID: "one-3", Name: "nobodys", Provider: "one", State: core.StateRunning},
	}
	scoped := s.Within(Scope{Labels: mine})
	if sb, err := scoped.Sandboxes.Resolve(t.Context(), "dev"); err != nil || sb.ID != "one-1" {
		t.Errorf("a name that both have is %+v, %v", sb, err)
	}
	for _, ref := range []string{
		"one-0", "one/one-0", "one-2", "secret-project", "one/secret-project", "nobodys", "one-3", "secret-projec",
	} {
		_, err := scoped.Sandboxes.Resolve(t.Context(), ref)
		if !errors.Is(err, core.KindNotFound) {
			t.Errorf("%s: %v", ref, err)
		}
		if err != nil && (strings.Contains(strings.ReplaceAll(err.Error(), ref, ""), "secret") ||
			strings.Contains(core.HintOf(err), "secret")) {
			t.Errorf("%s: the error names others: %v (%s)", ref, err, core.HintOf(err))
		}
	}
	if listing, err := scoped.Sandboxes.List(t.Context(), core.ListFilter{All: true}); err != nil ||
		len(listing.Sandboxes) != 1 {
		t.Errorf("the list is %+v, %v", listing, err)
	}
	if err := scoped.Sandboxes.Terminate(t.Context(), "one-0"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("terminating another's: %v", err)
	}
	if _, err := scoped.Within(Scope{Actor: "deeper"}).Sandboxes.Resolve(t.Context(), "one-0"); !errors.Is(
		err, core.KindNotFound,
	) {
		t.Errorf("a scope in a scope sees more: %v", err)
	}
	if sb, err := s.Sandboxes.Resolve(t.Context(), "one-0"); err != nil || sb.ID != "one-0" {
		t.Errorf("the service itself is narrowed: %+v, %v", sb, err)
	}
}

func TestScopeMarksLaunches(t *testing.T) {
	s, _, _ := service(t, Options{})
	scoped := s.Within(Scope{
		Actor: "mcp/1", Labels: map[string]string{"owner": "me"}, Counted: map[string]string{"by": "mcp"}, NamePrefix: "mcp-",
	})
	for requested, want := range map[string]string{"dev": "mcp-dev", "mcp-x": "mcp-x", "": "mcp-"} {
		sb, err := scoped.Sandboxes.Launch(
			t.Context(), core.Spec{Name: requested, Labels: map[string]string{"owner": "them", "team": "a"}}, LaunchOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(sb.Name, want) || requested != "" && sb.Name != want {
			t.Errorf("%q is named %q", requested, sb.Name)
		}
		labels := sb.Spec.Labels
		if labels["owner"] != "me" || labels["by"] != "mcp" || labels["team"] != "a" || sb.Lease.Owner.Actor != "mcp/1" {
			t.Errorf("%q has labels %v and is for %q", requested, labels, sb.Lease.Owner.Actor)
		}
	}
}

func TestScopeCountsItsSandboxes(t *testing.T) {
	s, one, _ := service(t, Options{})
	one.boxes = []core.Sandbox{
		{ID: "one-0", Provider: "one", State: core.StateRunning, Labels: map[string]string{"by": "me"}},
		{ID: "one-1", Provider: "one", State: core.StateExited, Labels: map[string]string{"by": "me"}},
		{ID: "one-2", Provider: "one", State: core.StateRunning},
	}
	for most, kind := range map[int]core.Kind{1: core.KindExhausted, 2: core.KindInternal} {
		_, err := s.Within(Scope{MaxSandboxes: most, Counted: map[string]string{"by": "me"}}).
			Sandboxes.Launch(t.Context(), core.Spec{}, LaunchOptions{})
		if (err != nil) != (kind == core.KindExhausted) || core.KindOf(err) != kind {
			t.Errorf("of %d: %v", most, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	hour := core.Duration(time.Hour)
	for name, test := range map[string]struct {
		policy LaunchPolicy
		spec   core.Spec
		want   func(core.Spec) bool // nil: it is an error
	}{
		"image taken": {LaunchPolicy{Images: []string{"a", "b"}}, core.Spec{}, func(s core.Spec) bool {
			return s.Image == "a"
		}},
		"image allowed": {LaunchPolicy{Images: []string{"a", "b"}}, core.Spec{Image: "b"}, func(s core.Spec) bool {
			return s.Image == "b"
		}},
		"image refused":      {LaunchPolicy{Images: []string{"a"}}, core.Spec{Image: "c"}, nil},
		"dockerfile refused": {LaunchPolicy{Images: []string{"a"}}, core.Spec{Dockerfile: "D"}, nil},
		"python refused":     {LaunchPolicy{Images: []string{"a"}}, core.Spec{Python: "3.12"}, nil},
		"snapshot refused":   {LaunchPolicy{Images: []string{"a"}}, core.Spec{Snapshot: "s"}, nil},
		"provider taken": {LaunchPolicy{Provider: "one"}, core.Spec{Provider: core.ProviderAuto}, func(s core.Spec) bool {
			return s.Provider == "one"
		}},
		"provider refused": {LaunchPolicy{Provider: "one"}, core.Spec{Provider: "two"}, nil},
		"gpu refused":      {LaunchPolicy{GPUs: []string{"T4"}}, core.Spec{GPU: core.GPU{Type: "H100", Count: 1}}, nil},
		"gpu allowed": {LaunchPolicy{GPUs: []string{"T4"}}, core.Spec{GPU: core.GPU{Type: "T4", Count: 1}}, func(
			core.Spec,
		) bool {
			return true
		}},
		"no gpu at all": {LaunchPolicy{GPUs: []string{"none"}}, core.Spec{GPU: core.GPU{Type: "T4", Count: 1}}, nil},
		"no gpu asked":  {LaunchPolicy{GPUs: []string{"none"}}, core.Spec{}, func(core.Spec) bool { return true }},
		"network taken": {LaunchPolicy{Networks: []core.NetworkMode{core.NetworkNone, core.NetworkAll}}, core.Spec{}, func(
			s core.Spec,
		) bool {
			return s.Network.Mode == core.NetworkNone
		}},
		"network refused": {
			LaunchPolicy{Networks: []core.NetworkMode{core.NetworkNone}},
			core.Spec{Network: core.Network{Mode: core.NetworkAll}},
			nil,
		},
		"lifetime taken": {LaunchPolicy{MaxTimeout: hour}, core.Spec{}, func(s core.Spec) bool {
			return s.Timeout == hour
		}},
		"lifetime refused": {LaunchPolicy{MaxTimeout: hour}, core.Spec{Timeout: 2 * hour}, nil},
		"cpu refused":      {LaunchPolicy{MaxCPU: 1}, core.Spec{CPU: 2}, nil},
		"memory taken": {LaunchPolicy{MaxMemory: core.GiB}, core.Spec{}, func(s core.Spec) bool {
			return s.Memory == core.GiB
		}},
		"memory refused": {LaunchPolicy{MaxMemory: core.GiB}, core.Spec{Memory: 2 * core.GiB}, nil},
		"host volume refused": {
			LaunchPolicy{NoHostPaths: true}, core.Spec{Volumes: []core.Volume{{Source: "/etc", Target: "/x"}}}, nil,
		},
		"image in a file refused": {LaunchPolicy{NoHostPaths: true}, core.Spec{Image: "dir:/etc"}, nil},
		"image of a registry": {LaunchPolicy{NoHostPaths: true}, core.Spec{Image: "python:3.12"}, func(s core.Spec) bool {
			return s.Image == "python:3.12"
		}},
		"named volume": {
			LaunchPolicy{NoHostPaths: true},
			core.Spec{Volumes: []core.Volume{{Source: "data", Target: "/x"}}},
			func(
				core.Spec,
			) bool {
				return true
			},
		},
	} {
		spec := test.spec
		err := test.policy.admit(&spec)
		switch {
		case test.want == nil && (!errors.Is(err, core.KindUnauthorized) || core.HintOf(err) == ""):
			t.Errorf("%s: %v", name, err)
		case test.want != nil && (err != nil || !test.want(spec)):
			t.Errorf("%s: %+v, %v", name, spec, err)
		}
	}
	// The check comes before defaults and before any call of a provider.
	s, one, _ := service(t, Options{})
	if _, err := s.Within(Scope{Policy: LaunchPolicy{Images: []string{"a"}}}).
		Sandboxes.Launch(t.Context(), core.Spec{Image: "b"}, LaunchOptions{}); !errors.Is(err, core.KindUnauthorized) ||
		len(one.boxes) != 0 {
		t.Errorf("launch: %v", err)
	}
	one.boxes = []core.Sandbox{{ID: "one-0", Provider: "one", State: core.StateRunning}}
	if _, err := s.Within(Scope{Policy: LaunchPolicy{MaxTimeout: hour}}).
		Sandboxes.SetTimeout(t.Context(), "one-0", 0); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a lifetime without an end: %v", err)
	}
}

// A template fills in the open fields of a launch. If a policy fixes the template, the launch can set few others.
func TestTemplates(t *testing.T) {
	hour := core.Duration(time.Hour)
	base := core.Spec{
		Image: "base", Memory: core.GiB, Timeout: hour, Env: map[string]string{"A": "1", "B": "1"},
		Network: core.Network{Mode: core.NetworkNone},
	}
	known := func(name string) (core.Spec, bool, error) { return base, name == "t", nil }
	for name, test := range map[string]struct {
		policy LaunchPolicy
		spec   core.Spec
		kind   core.Kind // of the refusal, if want is nil
		want   func(core.Spec) bool
	}{
		"filled in": {LaunchPolicy{}, core.Spec{Template: "t"}, 0, func(s core.Spec) bool {
			return s.Image == "base" && s.Memory == core.GiB && s.Template == "" && s.Env["A"] == "1"
		}},
		"overridden": {
			LaunchPolicy{},
			core.Spec{Template: "t", Memory: 2 * core.GiB, Env: map[string]string{"A": "2"}},
			0,
			func(
				s core.Spec,
			) bool {
				return s.Memory == 2*core.GiB && s.Env["A"] == "2" && s.Env["B"] == "1"
			},
		},
		"unknown": {LaunchPolicy{}, core.Spec{Template: "u"}, core.KindNotFound, nil},
		"a path":  {LaunchPolicy{}, core.Spec{Template: "../t"}, core.KindNotFound, nil},
		"taken": {LaunchPolicy{Template: "t"}, core.Spec{Name: "x", Env: map[string]string{"C": "1"}}, 0, func(
			s core.Spec,
		) bool {
			return s.Image == "base" && s.Name == "x" && s.Env["C"] == "1" && s.Network.Mode == core.NetworkNone
		}},
		"shorter": {LaunchPolicy{Template: "t"}, core.Spec{Template: "t", Timeout: hour / 2}, 0, func(s core.Spec) bool {
			return s.Timeout == hour/2
		}},
		"longer":     {LaunchPolicy{Template: "t"}, core.Spec{Timeout: 2 * hour}, core.KindUnauthorized, nil},
		"another":    {LaunchPolicy{Template: "t"}, core.Spec{Template: "u"}, core.KindUnauthorized, nil},
		"beside it":  {LaunchPolicy{Template: "t"}, core.Spec{Image: "a"}, core.KindUnauthorized, nil},
		"a snapshot": {LaunchPolicy{Template: "t"}, core.Spec{Snapshot: "a"}, core.KindUnauthorized, nil},
		"another network": {
			LaunchPolicy{Template: "t"}, core.Spec{Network: core.Network{Mode: core.NetworkAll}}, core.KindUnauthorized, nil,
		},
		"a GPU": {LaunchPolicy{Template: "t"}, core.Spec{GPU: core.GPU{Type: "T4", Count: 1}}, core.KindUnauthorized, nil},
		"a volume": {
			LaunchPolicy{Template: "t"},
			core.Spec{Volumes: []core.Volume{{Source: "x", Target: "/x"}}},
			core.KindUnauthorized,
			nil,
		},
		"a kept secret": {
			LaunchPolicy{Template: "t"}, core.Spec{Secrets: []core.Secret{{Name: "k", Ref: "k"}}}, core.KindUnauthorized, nil,
		},
		"a secret": {
			LaunchPolicy{Template: "t"},
			core.Spec{Secrets: []core.Secret{{Name: "S", Value: core.NewSecretValue("value")}}},
			0, func(s core.Spec) bool {
				return len(s.Secrets) == 1
			},
		},
		"policy over it": {
			LaunchPolicy{Template: "t", Networks: []core.NetworkMode{core.NetworkAll}}, core.Spec{}, core.KindUnauthorized, nil,
		},
	} {
		s, _, _ := service(t, Options{Templates: known})
		spec := test.spec.Clone()
		err := s.Within(Scope{Policy: test.policy}).instantiate(&spec)
		if err == nil {
			err = test.policy.admit(&spec)
		}
		switch {
		case test.want == nil && (err == nil || core.KindOf(err) != test.kind || core.HintOf(err) == ""):
			t.Errorf("%s: %v", name, err)
		case test.want != nil && (err != nil || !test.want(spec)):
			t.Errorf("%s: %+v, %v", name, spec, err)
		}
	}
}

// A template's secret has a value: its own, or the launch's. A secret without a value fails the launch instead of being
// empty.
func TestSecretsOfATemplate(t *testing.T) {
	base := core.Spec{
		Secrets: []core.Secret{
			{Name: "SET", Value: core.NewSecretValue("set")}, {Name: "UNSET"}, {Name: "KEPT", Ref: "kept"},
		},
	}
	s, _, _ := service(t, Options{Templates: func(string) (core.Spec, bool, error) { return base, true, nil }})
	spec := core.Spec{Template: "t"}
	if err := s.instantiate(&spec); !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "UNSET") {
		t.Errorf("without a value: %v", err)
	}
	spec = core.Spec{Template: "t", Secrets: []core.Secret{{Name: "UNSET", Value: core.NewSecretValue("given")}}}
	if err := s.instantiate(&spec); err != nil || len(spec.Secrets) != 3 {
		t.Errorf("with one: %v, %v", spec.Secrets, err)
	}
}

// Explain describes the spec that a launch would use, including the template.
func TestWhatIsExplainedIsWhatIsLaunched(t *testing.T) {
	base := core.Spec{Memory: core.GiB, GPU: core.GPU{Type: "H100", Count: 1}}
	s, _, _ := service(t, Options{Templates: func(string) (core.Spec, bool, error) { return base, true, nil }})
	explained, err := s.Policy.Explain(t.Context(), core.Spec{Template: "t"})
	if err != nil || len(explained) != 1 || explained[0].Provider != "two" {
		t.Fatalf("%+v, %v", explained, err)
	}
	if list := explained[0].Enforcement; len(list) != 1 || list[0].Field != "memory" || list[0].Value != "1GiB" {
		t.Errorf("explained is %+v", list)
	}
	confined := s.Within(Scope{Policy: LaunchPolicy{Provider: "two"}})
	if placement, err := confined.Sandboxes.Explain(t.Context(), core.Spec{}); err != nil || placement.Chosen != "two" {
		t.Errorf("under a policy %+v, %v", placement, err)
	}
}

// Explain includes and marks the limits that the defaults add. Require checks all limits and names each one that is not
// enforced. A default that the provider does not support is no limit of the sandbox.
func TestRequireChecksEveryLimit(t *testing.T) {
	s, _, _ := service(t, Options{Defaults: core.Spec{Memory: core.GiB, Disk: core.GiB}})
	for _, named := range []core.Bytes{0, core.GiB} {
		explained, err := s.Policy.Explain(t.Context(), core.Spec{Provider: "two", Memory: named})
		if err != nil || len(explained) != 1 || len(explained[0].Enforcement) != 1 {
			t.Fatalf("%+v, %v", explained, err)
		}
		if e := explained[0].Enforcement[0]; e.Field != "memory" || e.Default != (named == 0) {
			t.Errorf("memory named as %s: %+v", named, e)
		}
	}
	for _, test := range []struct {
		spec      core.Spec
		why, hint string
	}{
		// How "two" holds memory is unknown, and it has no limit of the disk.
		{core.Spec{Memory: core.GiB}, "does not hold memory fully", "sb policy explain"},
		{core.Spec{}, "does not hold memory, a default of 1GiB, fully", "sb config set defaults.memory 0"},
	} {
		test.spec.Provider, test.spec.Require = "two", true
		placement, err := s.Sandboxes.Explain(t.Context(), test.spec)
		if err != nil || placement.Chosen != "" || !strings.Contains(placement.Candidates[0].Why, test.why) ||
			!strings.Contains(placement.Candidates[0].Hint, test.hint) || strings.Contains(placement.Candidates[0].Why, "disk") {
			t.Errorf("%+v: %+v, %v", test.spec, placement, err)
		}
	}
	without, _, _ := service(t, Options{Defaults: core.Spec{Disk: core.GiB}})
	placement, err := without.Sandboxes.Explain(t.Context(), core.Spec{Provider: "two", Require: true})
	if err != nil || placement.Chosen != "two" {
		t.Errorf("without a limit: %+v, %v", placement, err)
	}
}

// Every field of a template reaches the launch: a new field of Spec must be added to complete, too.
func TestCompleteTakesEveryField(t *testing.T) {
	base := core.Spec{}
	fields := reflect.ValueOf(&base).Elem()
	for _, field := range fields.Fields() {
		fillValue(t, field)
	}
	base.Template, base.Dockerfile, base.Snapshot, base.Checkpoint = "", "", "", ""
	var spec core.Spec
	complete(&spec, base)
	spec.Name = base.Name // each launch has its own name
	if diff := cmp.Diff(base, spec, cmp.AllowUnexported(core.SecretValue{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// fillValue sets a field of a Spec to a value that is not zero.
func fillValue(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint('7')
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() != reflect.Struct {
			fillValue(t, v.Index(0))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		if v.NumField() > 0 && v.Field(0).CanSet() {
			fillValue(t, v.Field(0))
		}
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
