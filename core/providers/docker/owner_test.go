package docker

import (
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// owned returns a lease of one of an engine's owners.
func owned(id, user string) core.Lease {
	l := lease(core.Spec{})
	l.Owner.ID, l.Owner.User, l.Owner.Host = id, user, "here"
	return l
}

// The hint for a name in use does not end another owner's sandbox.
func TestNameOfAnotherOwner(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		spec := core.Spec{Name: core.NewName(), Image: testImage}
		sb, err := p.Launch(t.Context(), spec, owned("a", "ann"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end(t, p, sb.ID) })
		_, err = p.Launch(t.Context(), spec, owned("b", "bob"), nil)
		wantKind(t, err, core.KindConflict)
		if hint := core.HintOf(err); !strings.Contains(err.Error(), `"ann@here"`) || strings.Contains(hint, "terminate") ||
			!strings.Contains(hint, "another name") {
			t.Errorf("another owner reads %v; %s", err, hint)
		}
		_, err = p.Launch(t.Context(), spec, owned("a", "ann"), nil)
		wantKind(t, err, core.KindConflict)
		if hint := core.HintOf(err); !strings.Contains(hint, "sb terminate "+spec.Name) {
			t.Errorf("the owner reads %v; %s", err, hint)
		}
	})
}

// Two owners of one app share no internal network.
func TestInternalNetworkPerOwner(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p, app := e.open(t, nil), core.NewName()
		var boxes []core.Sandbox
		for _, owner := range []string{"a", "a", "b"} {
			spec := core.Spec{
				Name: core.NewName(), App: app, Image: testImage, Network: core.Network{Mode: core.NetworkInternal},
			}
			sb, err := p.Launch(t.Context(), spec, owned(owner, owner), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { end(t, p, sb.ID) })
			boxes = append(boxes, sb)
		}
		names := map[string]bool{}
		for _, sb := range boxes {
			found, err := e.raw(t).ContainerInspect(t.Context(), containerOf(sb.ID), client.ContainerInspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name := range found.Container.NetworkSettings.Networks {
				names[name] = true
			}
		}
		if len(names) != 2 {
			t.Errorf("two sandboxes of one owner and one of another are in the networks %v", names)
		}
		for _, sb := range boxes {
			end(t, p, sb.ID)
		}
		for name := range names {
			if found, err := p.engine.networksNamed(t.Context(), name); err != nil || len(found) != 0 {
				t.Errorf("left: %+v, %v", found, err)
			}
		}
	})
}
