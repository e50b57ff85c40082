package commands

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// fullDisk is a stdout on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// made lists the commands that create something and print its name. names is the text of the error when stdout is full.
var made = map[string]struct{ line, names, next string }{
	"launch":             {"launch -n made", "the sandbox clo-", "sb terminate clo-"},
	"fork":               {"fork dev -n made", "the sandbox clo-", "sb terminate clo-"},
	"move":               {"move dev --to other", "the sandbox oth-", "sb terminate oth-"},
	"snapshot":           {"snapshot dev kept", "the snapshot kept", "sb snapshot rm kept"},
	"checkpoint create":  {"checkpoint create dev -n warm", "the checkpoint warm", "sb checkpoint rm warm"},
	"tunnel":             {"tunnel dev", "a token for https://", "sb tunnel dev"},
	"policy set":         {"policy set dev --network none", "the policy of dev", "sb policy show dev"},
	"exec":               {"exec -d dev sleep 0", "the command runs as ", "sb kill dev "},
	"key create":         {"key create alice", "the key ", "sb key revoke "},
	"volume create":      {"volume create data", "the volume data", "sb volume rm data"},
	"secret create":      {"secret create api TOKEN", "the secret api", "sb secret rm api"},
	"environment create": {"environment create staging", "the environment staging", "sb environment rm staging"},
	"image build":        {"image build -t app .", "the image img-app", "sb image rm img-app"},
	"image push":         {"image push host me/app:1", "the image me/app:1@sha256:", "sb image pull me/app:1@sha256:"},
	"image pull":         {"image pull host", "the image img-host", "sb image rm img-host"},
}

// diskApp makes an App over two providers with stores, with the sandbox "dev" at the first.
func diskApp(t *testing.T) (*cli.App, *iostreams.Test) {
	t.Helper()
	app, streams := clitest.New(t, map[string]string{"TOKEN": "hunter2"})
	app.Signals = cli.SignalsFrom(make(chan os.Signal))
	state := t.TempDir()
	app.Paths = func() (configs.Paths, error) { return configs.Paths{State: state}, nil }
	cloud := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-", Now: app.Now}, fake.KeeperOptions{})
	other := fake.NewKeeper(fake.Options{Name: "other", IDPrefix: "oth-", Now: app.Now}, fake.KeeperOptions{})
	svc := service.New(service.Options{
		Actor: "test", Now: app.Now, StateDir: state, Defaults: core.Spec{Provider: "cloud"},
		Factories: []core.Factory{cloud.Factory(), other.Factory()},
	})
	t.Cleanup(func() {
		_ = svc.Close()
		cloud.Shutdown()
		other.Shutdown()
	})
	app.Service = func() (*service.Service, error) { return svc, nil }
	if code := execute(t.Context(), app, strings.Fields("launch -q -n dev --port 8000")); code != 0 {
		t.Fatal(streams.Err.String())
	}
	streams.Err.Reset()
	return app, streams
}

// A command that created an object and cannot print its name exits with 125. The error names the object and the next
// command.
func TestMadeOnAFullDisk(t *testing.T) {
	for name, c := range made {
		for _, flag := range []string{"", "--json"} {
			t.Run(name+flag, func(t *testing.T) {
				app, streams := diskApp(t)
				app.Streams.Out = fullDisk{}
				args := strings.Fields(c.line)
				if flag != "" {
					args = slices.Insert(args, len(strings.Fields(name)), flag)
				}
				code := execute(t.Context(), app, args)
				message := streams.Err.String()
				if code != 125 {
					t.Errorf("exit code %d, want 125", code)
				}
				for _, want := range []string{c.names, "could not be printed", "no space left on device", c.next} {
					if !strings.Contains(message, want) {
						t.Errorf("the error does not contain %q: %s", want, message)
					}
				}
			})
		}
	}
}

// The table of TestMadeOnAFullDisk has every command that prints a new object according to its help.
func TestEveryMakerIsTested(t *testing.T) {
	app, _ := clitest.New(t, nil)
	// These print no new object, or the name of a removed one.
	others := []string{"app stop", "doctor", "fs cat", "port", "config get", "config path", "completion", "version"}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "sb ")
		prints := strings.Contains(strings.Join(strings.Fields(cmd.Long), " "), "and print")
		if _, ok := made[name]; !ok && (prints || cmd.Name() == "create") && !slices.Contains(others, name) {
			t.Errorf("sb %s makes something, and no test has it print that to a full disk", name)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(NewRoot(app))
}

// If stdout is full, the error names both forks.
func TestForksOnAFullDisk(t *testing.T) {
	app, streams := diskApp(t)
	app.Streams.Out = fullDisk{}
	code := execute(t.Context(), app, strings.Fields("fork dev --count 2 --json"))
	if message := streams.Err.String(); code != 125 || strings.Count(message, "the sandbox clo-") != 2 {
		t.Errorf("exit code %d: %s", code, message)
	}
}

// A removal that cannot be printed does not keep the others.
func TestRemovalOnAFullDisk(t *testing.T) {
	app, streams := diskApp(t)
	wantOutput(t, app, streams, "volume create one", "one")
	wantOutput(t, app, streams, "volume create two", "two")
	out := app.Streams.Out
	app.Streams.Out = fullDisk{}
	if code := execute(t.Context(), app, strings.Fields("volume rm one nosuch two")); code != 125 ||
		!strings.Contains(streams.Err.String(), "nosuch") {
		t.Errorf("exit code %d: %s", code, streams.Err)
	}
	app.Streams.Out = out
	wantOutput(t, app, streams, "volume ls --json", "[]")
}

// An error of a write names stdout and the cause, and has one code.
func TestOutputToAFullDisk(t *testing.T) {
	for _, args := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"ls", "-q"},
		{"inspect", "one"},
		{"terminate", "one"},
		{"terminate", "one", "nosuch"},
		{"version"},
		{"provider", "ls"},
		{"--help"},
	} {
		app, streams, _ := stubApp(t, "one")
		app.Streams.Out = fullDisk{}
		code := execute(t.Context(), app, args)
		message := streams.Err.String()
		if code != 125 || !strings.Contains(message, "/dev/stdout") || !strings.Contains(message, "no space left on device") {
			t.Errorf("%s: exit code %d: %s", slices.Concat(args), code, message)
		}
	}
}
