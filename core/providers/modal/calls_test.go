//go:build linux

package modal_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// spec returns the launch spec of most tests.
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
	exit, err := process.Wait(providertest.Patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// operation is an operation of a fresh provider, and the calls that it needs.
type operation struct {
	name string
	// fresh starts with an empty cache.
	fresh bool
	want  string
	do    func(context.Context, *modal.Provider) error
}

// Each call costs a round trip to Modal. So each operation may make only the calls that it needs, in a process that
// knows only the cache of earlier ones. A change that adds a call must list it here.
func TestCallsOfEachOperation(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) { o.Secrets = map[string]map[string]string{"kept": {"KEPT": "value"}} })
	first := modal.New(r.opts)
	s := spec()
	s.Ports = []core.Port{{Sandbox: 8000}}
	s.Ready = &core.Probe{Exec: []string{"true"}, Interval: core.Duration(100 * time.Millisecond)}
	s.Modal = modalspec.Section{MemorySnapshot: true}.JSON()
	sb := launched(t, first, s)
	shell(
		t, first, sb.ID, "mkdir /tmp/dir /tmp/to /mnt/it; echo x >/tmp/dir/f; while :; do sleep 1; done >/dev/null 2>&1 &",
	)
	kept, err := first.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "kept-files"})
	if err != nil {
		t.Fatal(err)
	}
	directory, err := first.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Path: "/tmp/dir"})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	const (
		way  = "AuthTokenGet SandboxGetCommandRouterAccess "
		exec = way + "TaskExecStart TaskExecStdioRead TaskExecWait"
		// A command of the file tool has an answer on stdout and an error on stderr.
		tool = "TaskExecStart TaskExecStdioRead TaskExecStdioRead TaskExecWait"
	)
	var archive []byte
	for _, test := range slices.Concat(launches(t), []operation{
		{"check", false, "AuthTokenGet", func(ctx context.Context, p *modal.Provider) error { return p.Check(ctx) }},
		{"get", false, "AuthTokenGet SandboxTagsGetV2 SandboxWaitV2", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Get(ctx, sb.ID))
		}},
		{"find a name", false, "AuthTokenGet SandboxTagsGetV2 SandboxWaitV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.FindName(ctx, sb.Name))
		}},
		{"find a name, nothing remembered", true, "AppList AuthTokenGet SandboxListV2 SandboxListV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.FindName(ctx, sb.Name))
		}},
		{"list", false, "AppList AuthTokenGet SandboxListV2 SandboxListV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.List(ctx))
		}},
		{"exec", false, exec, execTrue(sb.ID, nil)},
		{"exec, nothing remembered", true, "SandboxGetTaskIdV2 " + exec, execTrue(sb.ID, nil)},
		{"exec with a secret of Modal's, nothing remembered", true, "SandboxGetTaskIdV2 SecretGetOrCreate " +
			exec, execTrue(sb.ID, []core.Secret{{Ref: "kept"}})},
		{"stat", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			return second(p.Stat(ctx, sb.ID, "/tmp/dir"))
		}},
		{"readdir", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			return second(p.ReadDir(ctx, sb.ID, "/tmp/dir"))
		}},
		{"mkdir", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			return p.Mkdir(ctx, sb.ID, "/tmp/new", false)
		}},
		{"remove", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			return p.Remove(ctx, sb.ID, "/tmp/new", true)
		}},
		{"read", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			return readAll(p.ReadFile(ctx, sb.ID, "/tmp/dir/f"))
		}},
		{"write", false, way + tool + " " + tool, func(ctx context.Context, p *modal.Provider) error {
			return p.WriteFile(ctx, sb.ID, "/tmp/written", strings.NewReader("content"), core.WriteOptions{Mode: 0o600})
		}},
		{"export", false, way + tool, func(ctx context.Context, p *modal.Provider) error {
			content, err := p.Export(ctx, sb.ID, "/tmp/dir")
			if err != nil {
				return err
			}
			archive, err = io.ReadAll(content)
			return errors.Join(err, content.Close())
		}},
		{"import", false, way + tool + " " + tool, func(ctx context.Context, p *modal.Provider) error {
			return p.Import(ctx, sb.ID, "/tmp/to", bytes.NewReader(archive), core.ImportOptions{})
		}},
		{"logs", false, "AppCountLogs AuthTokenGet SandboxGetTaskIdV2 SandboxTagsGetV2 SandboxWaitV2 SandboxWaitV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			for _, err := range p.Logs(ctx, sb.ID, core.LogOptions{Tail: -1}) {
				return err
			}
			return nil
		}},
		{"wait until ready", false, way + "SandboxWaitUntilReady", func(ctx context.Context, p *modal.Provider) error {
			return p.WaitReady(ctx, sb.ID)
		}},
		{"tunnels", false, "AuthTokenGet SandboxGetTunnelsV2 SandboxTagsGetV2 SandboxWaitV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.Tunnels(ctx, sb.ID))
		}},
		{"connect token", false, "AuthTokenGet SandboxCreateConnectTokenV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.ConnectToken(ctx, sb.ID, core.ConnectOptions{}))
		}},
		{"policy", false, way + "SandboxTagsGetV2 SandboxTagsSetV2 SandboxWaitV2 TaskSetNetworkAccess", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.SetNetwork(ctx, sb.ID, core.Network{Mode: core.NetworkNone}))
		}},
		{"snapshot", false, way + "ImagePublish TaskSnapshotFilesystem", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Snapshot(ctx, sb.ID, core.SnapshotOptions{}))
		}},
		{"snapshot of a directory", false, way + "ImagePublish TaskSnapshotDirectory", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.Snapshot(ctx, sb.ID, core.SnapshotOptions{Path: "/tmp/dir"}))
		}},
		{"launch from a snapshot", false, "AuthTokenGet ImageGetByTag SandboxCreateV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			s := spec()
			s.Snapshot = kept.Name
			return second(p.Launch(ctx, s, lease(), nil))
		}},
		{"checkpoint", false, way + "SandboxTagsGetV2 SandboxWaitV2 TaskSnapshotMemory", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.Checkpoint(ctx, sb.ID, "kept"))
		}},
		{"checkpoints", false, "", func(ctx context.Context, p *modal.Provider) error { return second(p.Checkpoints(ctx)) }},
		{
			"launch from a checkpoint", false,
			"AuthTokenGet SandboxSnapshotGet SandboxRestoreV2 SandboxGetTunnelsV2 SandboxTagsSetV2", func(
				ctx context.Context, p *modal.Provider,
			) error {
				return second(p.Launch(ctx, core.Spec{Name: core.NewName(), Checkpoint: "kept"}, lease(), nil))
			},
		},
		{"mount", false, way + "TaskMountDirectory", func(ctx context.Context, p *modal.Provider) error {
			return p.MountImage(ctx, sb.ID, directory.ID, "/mnt/it")
		}},
		{"unmount", false, way + "TaskUnmountDirectory", func(ctx context.Context, p *modal.Provider) error {
			return p.UnmountImage(ctx, sb.ID, "/mnt/it")
		}},
		{"snapshots", false, "AuthTokenGet ImageListTags", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Snapshots(ctx))
		}},
		{"remove a snapshot", false, "AuthTokenGet ImageDelete ImageListTags ImageNameDelete", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return p.RemoveSnapshot(ctx, directory.ID)
		}},
		{"images", false, "AuthTokenGet ImageListTags", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Images(ctx))
		}},
		{"pull an image", false, "AuthTokenGet EnvironmentGetOrCreate AppGetOrCreate ImageGetOrCreate", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.PullImage(ctx, "debian:12", nil))
		}},
		{"volumes", false, "AuthTokenGet VolumeList", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Volumes(ctx))
		}},
		{"create a volume", false, "AuthTokenGet VolumeGetOrCreate", func(ctx context.Context, p *modal.Provider) error {
			return second(p.CreateVolume(ctx, "data", core.VolumeOptions{Version: 2}))
		}},
		{"remove a volume", false, "AuthTokenGet VolumeDelete VolumeGetOrCreate", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return p.RemoveVolume(ctx, "data")
		}},
		{"secrets", false, "AuthTokenGet SecretList", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Secrets(ctx))
		}},
		{"create a secret", false, "AuthTokenGet SecretGetOrCreate", func(ctx context.Context, p *modal.Provider) error {
			return second(
				p.CreateSecret(ctx, "token", map[string]core.SecretValue{"TOKEN": core.NewSecretValue("x")}, core.SecretOptions{}),
			)
		}},
		{"remove a secret", false, "AuthTokenGet SecretDelete SecretGetOrCreate", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return p.RemoveSecret(ctx, "token")
		}},
		{"apps", false, "AppList AuthTokenGet", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Apps(ctx))
		}},
		{"environments", false, "AuthTokenGet EnvironmentList", func(ctx context.Context, p *modal.Provider) error {
			return second(p.Environments(ctx))
		}},
		{"create an environment", false, "AuthTokenGet EnvironmentCreate", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.CreateEnvironment(ctx, "new"))
		}},
		{"remove an environment", false, "AuthTokenGet EnvironmentDelete", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return p.RemoveEnvironment(ctx, "new")
		}},
		{"diagnose", false, "AuthTokenGet TokenInfoGet", func(ctx context.Context, p *modal.Provider) error {
			p.Diagnose(ctx)
			return nil
		}},
		{"terminate", false, "AuthTokenGet SandboxTerminateV2 SandboxWaitV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return p.Terminate(ctx, sb.ID)
		}},
		{"wait for an ended one", false, "AuthTokenGet SandboxTagsGetV2 SandboxWaitV2", func(
			ctx context.Context, p *modal.Provider,
		) error {
			return second(p.WaitSandbox(ctx, sb.ID))
		}},
		{"stop an app", false, "AppList AppStop AuthTokenGet", func(ctx context.Context, p *modal.Provider) error {
			return p.StopApp(ctx, "calls")
		}},
	}) {
		t.Run(test.name, func(t *testing.T) { r.count(t, test) })
	}
}

// count runs an operation with a new provider and compares the calls that the server received.
func (r *rig) count(t *testing.T, test operation) {
	t.Helper()
	opts := r.opts
	if test.fresh {
		opts.CacheDir = t.TempDir()
	}
	p := modal.New(opts)
	r.server.ResetCalls()
	err := test.do(t.Context(), p)
	got := []string{}
	for _, call := range r.server.Calls() {
		// The end of the input is sent while the command runs. It is not sent if the command ends first.
		if call.Method != "TaskExecStdinWrite" {
			got = append(got, call.Method)
		}
	}
	want := strings.Fields(test.want)
	slices.Sort(got)
	slices.Sort(want)
	if closeErr := p.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// launches returns the operations that launch a sandbox.
func launches(t *testing.T) []operation {
	t.Helper()
	full := func(s *core.Spec) {
		s.Volumes = []core.Volume{{Source: "one", Target: "/one"}, {Source: "two", Target: "/two"}}
		s.Secrets = []core.Secret{{Ref: "kept"}, {Name: "INLINE", Value: core.NewSecretValue("x")}}
		s.Modal = modalspec.Section{Buckets: []modalspec.Bucket{{Name: "b", Target: "/b", Secret: "kept"}}}.JSON()
	}
	return []operation{
		{
			"launch, the first ever", true,
			"AppGetOrCreate AuthTokenGet EnvironmentGetOrCreate ImageGetOrCreate SandboxCreateV2", launchAndForget(t, nil),
		},
		{"launch", false, "AuthTokenGet SandboxCreateV2", launchAndForget(t, nil)},
		{
			"launch with volumes, secrets and a bucket, the first time", false,
			"AuthTokenGet SandboxCreateV2 SecretGetOrCreate VolumeGetOrCreate VolumeGetOrCreate", launchAndForget(t, full),
		},
		{"launch with volumes, secrets and a bucket", false, "AuthTokenGet SandboxCreateV2", launchAndForget(t, full)},
		{"launch with ports", false, "AuthTokenGet SandboxCreateV2 SandboxGetTunnelsV2", launchAndForget(t, func(
			s *core.Spec,
		) {
			s.Ports = []core.Port{{Sandbox: 80}}
		})},
		{"launch with a GPU", false, "AuthTokenGet SandboxCreate SandboxGetTaskId", launchAndForget(t, func(s *core.Spec) {
			s.GPU = core.GPU{Type: "H100", Count: 1}
		})},
		{"launch with an entry command", false, "AuthTokenGet SandboxCreateV2 SandboxGetTaskIdV2", launchAndForget(t, func(
			s *core.Spec,
		) {
			s.Command = []string{"sleep", "60"}
		})},
	}
}

func second[T any](_ T, err error) error { return err }

func readAll(content io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, content)
	return errors.Join(err, content.Close())
}

// launchAndForget returns a launch of a sandbox that the test does not end.
func launchAndForget(t *testing.T, change func(*core.Spec)) func(context.Context, *modal.Provider) error {
	t.Helper()
	return func(ctx context.Context, p *modal.Provider) error {
		s := spec()
		if change != nil {
			change(&s)
		}
		return second(p.Launch(ctx, s, lease(), nil))
	}
}

func execTrue(id string, secrets []core.Secret) func(context.Context, *modal.Provider) error {
	return func(ctx context.Context, p *modal.Provider) error {
		process, err := p.Exec(ctx, id, core.ExecSpec{Command: []string{"true"}, Stdout: io.Discard, Secrets: secrets})
		if err != nil {
			return err
		}
		defer func() { _ = process.Close() }()
		_, err = process.Wait(ctx)
		return err
	}
}

// If Modal no longer has an id from the cache, Launch looks it up again.
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
	// A new server at the same address has none of these ids.
	newRig(t, func(o *modaltest.Options) { o.Address = strings.TrimPrefix(r.server.URL(), "http://") })
	again := modal.New(modal.Options{CacheDir: r.opts.CacheDir})
	defer func() { _ = again.Close() }()
	launched(t, again, spec())
}

// Without credentials no operation calls Modal.
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
	if err := p.Check(t.Context()); !errors.Is(err, core.KindUnauthorized) ||
		!strings.Contains(core.HintOf(err), "sb login modal") {
		t.Errorf("Check: %v (%s)", err, core.HintOf(err))
	}
	if _, err := p.FindName(t.Context(), "any"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("FindName: %v", err)
	}
	if _, err := p.Get(t.Context(), "sb-01ARZ3NDEKTSV4RRFFQ69G5FAV"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := p.Launch(t.Context(), spec(), lease(), nil); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("Launch: %v", err)
	}
	p.Diagnose(t.Context())
	if calls := r.server.Calls(); len(calls) > 0 {
		t.Errorf("calls were made: %v", calls)
	}
}
