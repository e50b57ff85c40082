package commands

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/commands/sandboxes"
	"github.com/seed-0724f904/sb/commands/stores"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// keeperApp makes an App over a provider with stores.
func keeperApp(t *testing.T, env map[string]string, more fake.KeeperOptions) (*cli.App, *iostreams.Test) {
	t.Helper()
	app, streams := clitest.New(t, env)
	keeper := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-", Now: app.Now}, more)
	svc := service.New(service.Options{
		Actor: "test", Now: app.Now, StateDir: t.TempDir(), Factories: []core.Factory{keeper.Factory()},
	})
	t.Cleanup(func() {
		_ = svc.Close()
		keeper.Shutdown()
	})
	app.Service = func() (*service.Service, error) { return svc, nil }
	return app, streams
}

// did runs a command line and returns its output on stdout.
func did(t *testing.T, app *cli.App, streams *iostreams.Test, line string) (string, error) {
	t.Helper()
	streams.Out.Reset()
	root := NewRoot(app)
	root.SetArgs(strings.Fields(line))
	err := root.ExecuteContext(t.Context())
	return streams.Out.String(), err
}

// wantOutput runs a command line that must succeed and print its result.
func wantOutput(t *testing.T, app *cli.App, streams *iostreams.Test, line, want string) {
	t.Helper()
	got, err := did(t, app, streams, line)
	if err != nil || !strings.Contains(got, want) {
		t.Errorf("sb %s: %q, %v; want %q", line, got, err, want)
	}
}

func wantFailure(t *testing.T, app *cli.App, streams *iostreams.Test, line string, kind core.Kind) {
	t.Helper()
	if out, err := did(t, app, streams, line); !errors.Is(err, kind) {
		t.Errorf("sb %s: %q, %v; want an error of kind %v", line, out, err, kind)
	}
}

func TestStores(t *testing.T) {
	app, streams := keeperApp(t, map[string]string{"TOKEN": "hunter2"}, fake.KeeperOptions{})
	wantOutput(t, app, streams, "volume create data --json", `"name": "data"`)
	wantOutput(t, app, streams, "volume ls", "data  cloud")
	wantOutput(t, app, streams, "volume ls -q", "data\n")
	wantFailure(t, app, streams, "volume create data", core.KindConflict)
	wantOutput(t, app, streams, "volume rm data", "data\n")
	wantFailure(t, app, streams, "volume rm data", core.KindNotFound)
	wantOutput(t, app, streams, "volume ls --json", "[]")

	wantOutput(t, app, streams, "secret create api TOKEN", "api\n")
	wantOutput(t, app, streams, "secret ls", "TOKEN")
	wantOutput(t, app, streams, "secret rm api", "api\n")

	wantOutput(t, app, streams, "environment create staging", "staging\n")
	wantFailure(t, app, streams, "environment rm staging", core.KindUsage) // stdin is not a terminal
	wantOutput(t, app, streams, "environment rm --yes staging", "staging\n")

	wantOutput(t, app, streams, "image pull host", "img-host\n")
	wantOutput(t, app, streams, "image ls", "img-host")
	wantOutput(t, app, streams, "image rm host", "host\n")

	wantOutput(t, app, streams, "launch -q --name dev --app web --port 8000", "clo-")
	wantOutput(t, app, streams, "snapshot -q dev first --ttl 1h", "first\n")
	wantOutput(t, app, streams, "snapshot ls", "60m")
	wantOutput(t, app, streams, "snapshot rm first", "first\n")
	wantOutput(t, app, streams, "port dev", "https://")
	wantOutput(t, app, streams, "inspect dev", `"tunnels": [`)
	wantOutput(t, app, streams, "tunnel dev", "token-")
	wantOutput(t, app, streams, "policy set dev --allow pypi.org", "allow pypi.org\n")
	wantOutput(t, app, streams, "policy show dev", "allow pypi.org")
	wantOutput(t, app, streams, "app ls", "web")
	wantFailure(t, app, streams, "app stop web", core.KindUsage)
	wantOutput(t, app, streams, "app stop web --yes", "")
	wantFailure(t, app, streams, "inspect dev", core.KindNotFound)
}

// On a terminal a removal asks, and "no" does nothing.
func TestRemovalAsks(t *testing.T) {
	app, streams := keeperApp(t, nil, fake.KeeperOptions{})
	wantOutput(t, app, streams, "volume create data", "data")
	streams.SetTTY(80).Type("n\n")
	wantFailure(t, app, streams, "volume rm data", core.KindCanceled)
	streams.Type("y\n")
	wantOutput(t, app, streams, "volume rm data", "data\n")
}

// A value comes from the environment, a file or stdin. It never comes from the command line, which others can read.
func TestSecretValues(t *testing.T) {
	file := writeFile(t, "token", "from a file\n")
	app, streams := clitest.New(t, map[string]string{"A": "from here"})
	streams.SetInput("from stdin\n")
	opts := &stores.SecretCreateOptions{App: app, Keys: []string{"A", "B=@" +
		file, "C=-"}, Files: []string{writeFile(t, ".env", "D=from lines\n")}}
	values, err := opts.Values()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"A": "from here", "B": "from a file", "C": "from stdin", "D": "from lines"} {
		if got := values[key].Reveal(); strings.TrimSpace(got) != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	_, err = (&stores.SecretCreateOptions{App: app, Keys: []string{"A=hunter2"}}).Values()
	wantUsage(t, err, "on the command line")
	if strings.Contains(err.Error()+core.HintOf(err), "hunter2") {
		t.Errorf("the error shows the value: %v", err)
	}
}

func TestRequire(t *testing.T) {
	app, streams := keeperApp(t, nil, fake.KeeperOptions{Weak: []string{"memory"}})
	wantOutput(t, app, streams, "policy explain --memory 1G", "nothing looks at it")
	wantFailure(t, app, streams, "launch -q --name dev --require --memory 1G", core.KindUnsupported)
	wantOutput(t, app, streams, "launch -q --name dev --require --network none", "clo-")
	wantOutput(t, app, streams, "launch -q --name loose --memory 1G", "clo-")
}

func TestWaitReadyOfLaunch(t *testing.T) {
	app, streams := keeperApp(t, nil, fake.KeeperOptions{})
	wantFailure(t, app, streams, "launch --wait-ready", core.KindUsage)
	wantFailure(t, app, streams, "launch --ready-tcp 80 --ready-exec true", core.KindUsage)
	wantOutput(t, app, streams, "launch -q --name dev --ready-exec true --wait-ready", "clo-")
	_, err := did(t, app, streams, "launch -q --ready-exec true --wait-ready 20s serve")
	if !errors.Is(err, core.KindUsage) || !strings.Contains(core.HintOf(err), "--wait-ready=20s") {
		t.Errorf("a duration as the command: %v, %q", err, core.HintOf(err))
	}
	if _, err := did(t, app, streams, "launch -q --ready-exec true --wait-ready -- 20s"); err == nil ||
		!strings.Contains(err.Error(), `no program "20s"`) {
		t.Errorf("a command that is called so: %v", err)
	}
	// A sandbox that is not ready in time is an error, but keeps running.
	out, err := did(t, app, streams, "launch -q --name slow --ready-exec false --ready-interval 5ms --wait-ready=50ms")
	if !errors.Is(err, core.KindTimeout) || !strings.HasPrefix(out, "clo-") {
		t.Errorf("%q, %v", out, err)
	}
	if message := err.Error(); !strings.Contains(message, "not ready yet") || strings.Contains(message, "deadline") ||
		!strings.Contains(core.HintOf(err), "sb wait --ready slow") {
		t.Errorf("the error says %q, %q", message, core.HintOf(err))
	}
	wantOutput(t, app, streams, "inspect slow", `"state": "running"`)
}

func TestForwardPort(t *testing.T) {
	for text, want := range map[string]core.Port{
		"8080": {Host: 8080, Sandbox: 8080}, "0:80": {Sandbox: 80}, "81:80": {Host: 81, Sandbox: 80},
	} {
		if got, err := sandboxes.ForwardPort(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0", "x", "1:2:3", "80/tcp", "70000"} {
		if port, err := sandboxes.ForwardPort(bad); err == nil {
			t.Errorf("%q is %+v", bad, port)
		}
	}
}

// The command listens, prints its address, and ends without an error when it is interrupted.
func TestPortForward(t *testing.T) {
	app, streams := keeperApp(t, nil, fake.KeeperOptions{})
	wantOutput(t, app, streams, "launch -q --name dev", "clo-")
	streams.Out.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := sandboxes.RunPortForward(
		ctx, &sandboxes.PortForwardOptions{App: app, Ref: "dev", Address: "127.0.0.1", Ports: []core.Port{{Sandbox: 80}}},
	)
	if !errors.Is(err, core.KindCanceled) && !errors.Is(err, core.KindConflict) {
		t.Errorf("%v", err)
	}
}
