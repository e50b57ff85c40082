package core

import (
	"strings"
	"testing"
	"time"
)

func TestScopeHidesWhatIsNotItsOwn(t *testing.T) {
	s, one, _ := service(t, Options{})
	mine, theirs := map[string]string{"owner": "me"}, map[string]string{"owner": "them"}
	one.boxes = []Sandbox{
		{ID: "one-0", Name: "dev", Provider: "one", State: StateRunning, Labels: theirs},
		{ID: "one-1", Name: "dev", Provider: "one", State: StateExited, Labels: mine},
		{ID: "one-2", Name: "secret-project", Provider: "one", State: StateRunning, Labels: theirs},
		{ID: "one-3", Name: "nobodys", Provider: "one", State: StateRunning},
	}
	scoped := s.Within(Scope{Labels: mine})
	if sb, err := scoped.Resolve(t.Context(), "dev"); err != nil || sb.ID != "one-1" {
		t.Errorf("a name that both have is %+v, %v", sb, err)
	}
	for _, ref := range []string{"one-0", "one/one-0", "one-2", "secret-project", "one/secret-project", "nobodys", "one-3", "secret-projec"} {
		_, err := scoped.Resolve(t.Context(), ref)
		if KindOf(err) != KindNotFound {
			t.Errorf("%s: %v", ref, err)
		}
		if err != nil && (strings.Contains(strings.ReplaceAll(err.Error(), ref, ""), "secret") || strings.Contains(HintOf(err), "secret")) {
			t.Errorf("%s: the error tells of others: %v (%s)", ref, err, HintOf(err))
		}
	}
	if listing, err := scoped.List(t.Context(), ListFilter{All: true}); err != nil || len(listing.Sandboxes) != 1 {
		t.Errorf("the list is %+v, %v", listing, err)
	}
	if err := scoped.Terminate(t.Context(), "one-0"); KindOf(err) != KindNotFound {
		t.Errorf("terminating another's: %v", err)
	}
	if _, err := scoped.Within(Scope{Actor: "deeper"}).Resolve(t.Context(), "one-0"); KindOf(err) != KindNotFound {
		t.Errorf("a scope in a scope sees more: %v", err)
	}
	if sb, err := s.Resolve(t.Context(), "one-0"); err != nil || sb.ID != "one-0" {
		t.Errorf("the service itself is narrowed: %+v, %v", sb, err)
	}
}

func TestScopeMarksLaunches(t *testing.T) {
	s, _, _ := service(t, Options{})
	scoped := s.Within(Scope{Actor: "mcp/1", Labels: map[string]string{"owner": "me"}, Counted: map[string]string{"by": "mcp"}, NamePrefix: "mcp-"})
	for asked, want := range map[string]string{"dev": "mcp-dev", "mcp-x": "mcp-x", "": "mcp-"} {
		sb, err := scoped.Launch(t.Context(), Spec{Name: asked, Labels: map[string]string{"owner": "them", "team": "a"}}, LaunchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(sb.Name, want) || asked != "" && sb.Name != want {
			t.Errorf("%q is named %q", asked, sb.Name)
		}
		labels := sb.Spec.Labels
		if labels["owner"] != "me" || labels["by"] != "mcp" || labels["team"] != "a" || sb.Lease.Owner.Actor != "mcp/1" {
			t.Errorf("%q has labels %v and is for %q", asked, labels, sb.Lease.Owner.Actor)
		}
	}
}

func TestScopeCountsItsSandboxes(t *testing.T) {
	s, one, _ := service(t, Options{})
	one.boxes = []Sandbox{
		{ID: "one-0", Provider: "one", State: StateRunning, Labels: map[string]string{"by": "me"}},
		{ID: "one-1", Provider: "one", State: StateExited, Labels: map[string]string{"by": "me"}},
		{ID: "one-2", Provider: "one", State: StateRunning},
	}
	for most, kind := range map[int]Kind{1: KindExhausted, 2: KindInternal} {
		_, err := s.Within(Scope{MaxSandboxes: most, Counted: map[string]string{"by": "me"}}).Launch(t.Context(), Spec{}, LaunchOptions{})
		if (err != nil) != (kind == KindExhausted) || KindOf(err) != kind {
			t.Errorf("of %d: %v", most, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	hour := Duration(time.Hour)
	for name, test := range map[string]struct {
		policy Policy
		spec   Spec
		want   func(Spec) bool // nil: it is refused
	}{
		"image taken":         {Policy{Images: []string{"a", "b"}}, Spec{}, func(s Spec) bool { return s.Image == "a" }},
		"image allowed":       {Policy{Images: []string{"a", "b"}}, Spec{Image: "b"}, func(s Spec) bool { return s.Image == "b" }},
		"image refused":       {Policy{Images: []string{"a"}}, Spec{Image: "c"}, nil},
		"dockerfile refused":  {Policy{Images: []string{"a"}}, Spec{Dockerfile: "D"}, nil},
		"snapshot refused":    {Policy{Images: []string{"a"}}, Spec{Snapshot: "s"}, nil},
		"template taken":      {Policy{Template: "t"}, Spec{}, func(s Spec) bool { return s.Template == "t" }},
		"template refused":    {Policy{Template: "t"}, Spec{Template: "u"}, nil},
		"beside the template": {Policy{Template: "t"}, Spec{Image: "a"}, nil},
		"provider taken":      {Policy{Provider: "one"}, Spec{Provider: ProviderAuto}, func(s Spec) bool { return s.Provider == "one" }},
		"provider refused":    {Policy{Provider: "one"}, Spec{Provider: "two"}, nil},
		"gpu refused":         {Policy{GPUs: []string{"T4"}}, Spec{GPU: GPU{Type: "H100", Count: 1}}, nil},
		"gpu allowed":         {Policy{GPUs: []string{"T4"}}, Spec{GPU: GPU{Type: "T4", Count: 1}}, func(Spec) bool { return true }},
		"no gpu at all":       {Policy{GPUs: []string{"none"}}, Spec{GPU: GPU{Type: "T4", Count: 1}}, nil},
		"no gpu asked":        {Policy{GPUs: []string{"none"}}, Spec{}, func(Spec) bool { return true }},
		"network taken":       {Policy{Networks: []NetworkMode{NetworkNone, NetworkAll}}, Spec{}, func(s Spec) bool { return s.Network.Mode == NetworkNone }},
		"network refused":     {Policy{Networks: []NetworkMode{NetworkNone}}, Spec{Network: Network{Mode: NetworkAll}}, nil},
		"lifetime taken":      {Policy{MaxTimeout: hour}, Spec{}, func(s Spec) bool { return s.Timeout == hour }},
		"lifetime refused":    {Policy{MaxTimeout: hour}, Spec{Timeout: 2 * hour}, nil},
		"cpu refused":         {Policy{MaxCPU: 1}, Spec{CPU: 2}, nil},
		"memory taken":        {Policy{MaxMemory: GiB}, Spec{}, func(s Spec) bool { return s.Memory == GiB }},
		"memory refused":      {Policy{MaxMemory: GiB}, Spec{Memory: 2 * GiB}, nil},
		"host volume refused": {Policy{NoHostVolumes: true}, Spec{Volumes: []Volume{{Source: "/etc", Target: "/x"}}}, nil},
		"named volume":        {Policy{NoHostVolumes: true}, Spec{Volumes: []Volume{{Source: "data", Target: "/x"}}}, func(Spec) bool { return true }},
	} {
		spec := test.spec
		err := test.policy.admit(&spec)
		switch {
		case test.want == nil && (KindOf(err) != KindUnauthorized || err == nil || HintOf(err) == ""):
			t.Errorf("%s: %v", name, err)
		case test.want != nil && (err != nil || !test.want(spec)):
			t.Errorf("%s: %+v, %v", name, spec, err)
		}
	}
	// Before defaults are filled in and before any provider is asked.
	s, one, _ := service(t, Options{})
	if _, err := s.Within(Scope{Policy: Policy{Images: []string{"a"}}}).Launch(t.Context(), Spec{Image: "b"}, LaunchOptions{}); KindOf(err) != KindUnauthorized || len(one.boxes) != 0 {
		t.Errorf("launch: %v", err)
	}
	one.boxes = []Sandbox{{ID: "one-0", Provider: "one", State: StateRunning}}
	if _, err := s.Within(Scope{Policy: Policy{MaxTimeout: hour}}).SetTimeout(t.Context(), "one-0", 0); KindOf(err) != KindUnauthorized {
		t.Errorf("a lifetime for ever: %v", err)
	}
}
