//go:build linux

package modal_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// spec is a launch that most tests take.
func spec() core.Spec {
	return core.Spec{Name: core.NewName(), App: "calls", Timeout: core.Duration(10 * time.Minute)}
}

func lease() core.Lease {
	return core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}
}

func launched(t *testing.T, p core.Provider, s core.Spec) core.Sandbox {
	t.Helper()
	sb, err := p.Launch(t.Context(), s, lease(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return sb // the server ends it
}

func ran(t *testing.T, p core.Provider, id string, s core.ExecSpec) core.Exit {
	t.Helper()
	process, err := p.Exec(t.Context(), id, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// Each call costs the distance to Modal, so each operation of a process that knows nothing yet is held to
// the calls it needs. Whoever adds one must say so here.
func TestCallsOfEachOperation(t *testing.T) {
	r := newRig(t, nil)
	first := modal.New(r.opts)
	sb := launched(t, first, spec())
	// What later processes know: the image, the app, the sandbox's name, its task, its helper.
	if _, err := first.Stat(t.Context(), sb.ID, "/etc"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	exec := []string{"AuthTokenGet", "SandboxGetCommandRouterAccess", "TaskExecStart", "TaskExecStdioRead", "TaskExecWait"}
	// The helper's request has no body, and its answer comes on both streams.
	stat := []string{"AuthTokenGet", "SandboxGetCommandRouterAccess", "TaskExecStart", "TaskExecStdioRead", "TaskExecStdioRead", "TaskExecWait"}
	for _, test := range []struct {
		name  string
		fresh bool // with nothing remembered
		want  []string
		do    func(context.Context, *modal.Provider) error
	}{
		{"launch, the first ever", true, []string{"AppGetOrCreate", "AuthTokenGet", "EnvironmentGetOrCreate", "ImageGetOrCreate", "SandboxCreateV2"}, launchAndForget(t)},
		{"launch", false, []string{"AuthTokenGet", "SandboxCreateV2"}, launchAndForget(t)},
		{"launch with an entry command", false, []string{"AuthTokenGet", "SandboxCreateV2", "SandboxGetTaskIdV2"}, launchAndForget(t, "sleep", "60")},
		{"check", false, []string{"AuthTokenGet"}, func(ctx context.Context, p *modal.Provider) error { return p.Check(ctx) }},
		{"get", false, []string{"AuthTokenGet", "SandboxTagsGetV2", "SandboxWaitV2"}, func(ctx context.Context, p *modal.Provider) error {
			_, err := p.Get(ctx, sb.ID)
			return err
		}},
		{"find a name", false, []string{"AuthTokenGet", "SandboxTagsGetV2", "SandboxWaitV2"}, func(ctx context.Context, p *modal.Provider) error {
			_, err := p.FindName(ctx, sb.Name)
			return err
		}},
		{"find a name, nothing remembered", true, []string{"AppList", "AuthTokenGet", "SandboxListV2"}, func(ctx context.Context, p *modal.Provider) error {
			_, err := p.FindName(ctx, sb.Name)
			return err
		}},
		{"list", false, []string{"AppList", "AuthTokenGet", "SandboxListV2"}, func(ctx context.Context, p *modal.Provider) error {
			_, err := p.List(ctx)
			return err
		}},
		{"exec", false, exec, execTrue(sb.ID)},
		{"exec, nothing remembered", true, append([]string{"SandboxGetTaskIdV2"}, exec...), execTrue(sb.ID)},
		{"stat", false, stat, func(ctx context.Context, p *modal.Provider) error {
			_, err := p.Stat(ctx, sb.ID, "/etc")
			return err
		}},
		{"terminate", false, []string{"AuthTokenGet", "SandboxTerminateV2", "SandboxWaitV2"}, func(ctx context.Context, p *modal.Provider) error {
			return p.Terminate(ctx, sb.ID)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := r.opts
			if test.fresh {
				opts.CacheDir = t.TempDir()
			}
			p := modal.New(opts)
			r.server.ResetCalls()
			err := test.do(t.Context(), p)
			var got []string
			for _, call := range r.server.Calls() {
				// The end of an empty input is sent while the command runs, and not at all when that is over sooner.
				if call.Method != "TaskExecStdinWrite" {
					got = append(got, call.Method)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if closeErr := p.Close(); err != nil || closeErr != nil {
				t.Fatal(err, closeErr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// launchAndForget launches a sandbox that another process ends.
func launchAndForget(t *testing.T, command ...string) func(context.Context, *modal.Provider) error {
	t.Helper()
	return func(ctx context.Context, p *modal.Provider) error {
		s := spec()
		s.Command = command
		_, err := p.Launch(ctx, s, lease(), nil)
		return err
	}
}

func execTrue(id string) func(context.Context, *modal.Provider) error {
	return func(ctx context.Context, p *modal.Provider) error {
		process, err := p.Exec(ctx, id, core.ExecSpec{Command: []string{"true"}, Stdout: io.Discard})
		if err != nil {
			return err
		}
		defer func() { _ = process.Close() }()
		_, err = process.Wait(ctx)
		return err
	}
}

// What the cache remembers may be gone: it is then looked up again, not believed.
func TestRememberedIDsAreNotBelieved(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	launched(t, p, spec())
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	// At the same address is now a server that has none of it.
	newRig(t, func(o *modaltest.Options) { o.Address = strings.TrimPrefix(r.server.URL(), "http://") })
	again := modal.New(modal.Options{CacheDir: r.opts.CacheDir})
	defer func() { _ = again.Close() }()
	launched(t, again, spec())
}

// Without credentials nobody is called.
func TestNoCredentialsNoCalls(t *testing.T) {
	r := newRig(t, nil)
	t.Setenv("MODAL_TOKEN_ID", "")
	t.Setenv("MODAL_TOKEN_SECRET", "")
	r.server.ResetCalls()
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("List: %v, %v", all, err)
	}
	if err := p.Check(t.Context()); core.KindOf(err) != core.KindUnauthorized || !strings.Contains(core.HintOf(err), "sb login modal") {
		t.Errorf("Check: %v (%s)", err, core.HintOf(err))
	}
	if _, err := p.FindName(t.Context(), "any"); core.KindOf(err) != core.KindNotFound {
		t.Errorf("FindName: %v", err)
	}
	if _, err := p.Get(t.Context(), "sb-01ARZ3NDEKTSV4RRFFQ69G5FAV"); core.KindOf(err) != core.KindNotFound {
		t.Errorf("Get: %v", err)
	}
	if _, err := p.Launch(t.Context(), spec(), lease(), nil); core.KindOf(err) != core.KindUnauthorized {
		t.Errorf("Launch: %v", err)
	}
	p.Diagnose(t.Context())
	if calls := r.server.Calls(); len(calls) > 0 {
		t.Errorf("calls were made: %v", calls)
	}
}
