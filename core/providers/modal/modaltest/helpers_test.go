//go:build linux

package modaltest_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(programtest.With(m, "sb-runtime", "sb-guest")) }

// rig is a server whose sandboxes run on this machine, and a client of Modal's own SDK.
type rig struct {
	t      *testing.T
	server *modaltest.Server
	faults *modaltest.Faults
	client *sdk.Client
	app    *sdk.App
	image  *sdk.Image
}

func newRig(t *testing.T, change func(*modaltest.Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	backend, err := local.New(local.Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"), FreezeAfter: time.Second, LogLimit: core.MiB,
		HostDirs: []string{dir}, HostOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, faults: &modaltest.Faults{}}
	options := modaltest.Options{
		Backend: backend, Dir: dir, Guest: filepath.Join(programtest.Dir(), "sb-guest"), Faults: r.faults,
	}
	if change != nil {
		change(&options)
	}
	if r.server, err = modaltest.Start(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		if left, err := backend.List(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("sandboxes of the backend were left behind: %+v, %v", left, err)
		}
		if store, ok := backend.(core.SnapshotStore); ok {
			if left, err := store.Snapshots(context.Background()); err != nil || len(left) > 0 {
				t.Errorf("snapshots of the backend were left behind: %+v, %v", left, err)
			}
		}
		_ = backend.Close()
	})
	t.Setenv("MODAL_CONFIG_PATH", filepath.Join(dir, "modal.toml"))
	t.Setenv("MODAL_SERVER_URL", r.server.URL())
	r.client, err = sdk.NewClientWithOptions(&sdk.ClientParams{TokenID: "ak-test", TokenSecret: "as-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	if r.app, err = r.client.Apps.FromName(
		t.Context(), "tests", &sdk.AppFromNameParams{CreateIfMissing: true},
	); err != nil {
		t.Fatal(err)
	}
	r.image = r.client.Images.FromRegistry("debian:12-slim", nil)
	return r
}

// create creates a sandbox, which ends with the server.
func (r *rig) create(params *sdk.SandboxCreateParams) *sdk.Sandbox {
	r.t.Helper()
	sb, err := r.client.Sandboxes.Create(r.t.Context(), r.app, r.image, params)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = sb.Detach() })
	return sb
}

// run runs a script, fails the test if the script fails, and returns its output.
func run(t *testing.T, sb *sdk.Sandbox, script string) string {
	t.Helper()
	out, code := try(t, sb, script)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", script, code, out)
	}
	return out
}

// try runs a script and returns its output and its exit code.
func try(t *testing.T, sb *sdk.Sandbox, script string) (string, int) {
	t.Helper()
	process, err := sb.Exec(t.Context(), []string{"sh", "-c", "exec 2>&1; " + script}, nil)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	out, err := io.ReadAll(process.Stdout)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	code, err := process.Wait(providertest.Patient(t), nil)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out), code
}

// logger writes to a builder, which only the server uses while it runs.
func logger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
