package commands

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/sandboxes"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

func specDiff(want, got core.Spec) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b core.SecretValue) bool {
		return a.Reveal() == b.Reveal()
	}))
}

func TestNewLaunchFlags(t *testing.T) {
	app, _ := clitest.New(t, map[string]string{"TOKEN": "s3cret"})
	got, err := parse(t, app, sandboxes.NewLaunch,
		"--provider", "local", "--app", "web", "-n", "dev", "--image", "python:3.12", "--python", "3.12",
		"--pip", "numpy,pandas", "--pip", "scipy", "--apt", "curl", "--cpu", "1.5", "-m", "2G", "--disk", "10GiB",
		"--processes", "100", "--open-files", "1024", "--gpu", "a100-80gb:4", "--timeout", "2h", "--idle-timeout", "90",
		"--persist", "-w", "/w", "-u", "app", "-e", "A=1", "--secret", "TOKEN", "--secret-ref", "KEY=stored",
		"-v", "data:/data:ro", "--read-only", "--tmpfs", "/t", "--tmpfs", "/s:64M", "--shm-size", "1G",
		"--dns", "1.1.1.1,::1",
		"-p", "8080:80", "-p", "9000", "-p", "8443:443/h2", "--inbound", "203.0.113.0/24",
		"--ready-exec", "test -e /ok", "--ready-interval", "2s", "--modal", "regions=us-east,eu", "--modal", "cloud=aws",
		"--allow", "pypi.org,10.0.0.0/8", "-l", "team=ml",
		"--", "serve", "--port", "80")
	if err != nil {
		t.Fatal(err)
	}
	want := core.Spec{
		Provider: "local", App: "web", Name: "dev", Image: "python:3.12", Python: "3.12",
		Pip: []string{"numpy", "pandas", "scipy"}, Apt: []string{"curl"}, CPU: 1.5, Memory: 2 * core.GiB, Disk: 10 * core.GiB,
		Processes: 100, OpenFiles: 1024, GPU: core.GPU{Type: "A100-80GB", Count: 4},
		Timeout: core.Duration(2 * time.Hour), IdleTimeout: core.Duration(90 * time.Second), Persist: true,
		Workdir: "/w", User: "app", Env: map[string]string{"A": "1"},
		Secrets: []core.Secret{{Name: "KEY", Ref: "stored"}, {Name: "TOKEN", Value: core.NewSecretValue("s3cret")}},
		Volumes: []core.Volume{{Source: "data", Target: "/data", ReadOnly: true}},
		ShmSize: core.GiB, ReadOnly: true, Tmpfs: []core.Tmpfs{{Target: "/t"}, {Target: "/s", Size: 64 * core.MiB}},
		DNS:     []string{"1.1.1.1", "::1"},
		Ports:   []core.Port{{Host: 8080, Sandbox: 80}, {Sandbox: 9000}, {Host: 8443, Sandbox: 443, Protocol: core.PortH2}},
		Inbound: []string{"203.0.113.0/24"},
		Ready:   &core.Probe{Exec: []string{"sh", "-c", "test -e /ok"}, Interval: core.Duration(2 * time.Second)},
		Modal:   modalspec.Section{Regions: []string{"us-east", "eu"}, Cloud: "aws"}.JSON(),
		Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org", "10.0.0.0/8"}},
		Labels:  map[string]string{"team": "ml"}, Command: []string{"serve", "--port", "80"},
	}
	if diff := specDiff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewLaunchFile(t *testing.T) {
	file := writeFile(t, "spec.yaml", `
name: fromfile
image: host
memory: 512MiB
timeout: 1h
gpu: H100:2
env: {A: "1", B: "2"}
secrets:
  - name: TOKEN
  - name: KEY
    ref: stored
ports:
  - {host: 8080, port: 80}
network: {mode: none}
labels: {team: ml}
command: [sleep, "10"]
`)
	app, _ := clitest.New(t, map[string]string{"TOKEN": "s3cret"})
	got, err := parse(
		t, app, sandboxes.NewLaunch, "--file", file, "--name", "flag", "--template", "base", "-e", "B=3", "--memory", "1G",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := core.Spec{
		Name: "flag", Template: "base", Memory: core.GiB, Timeout: core.Duration(time.Hour),
		GPU:     core.GPU{Type: "H100", Count: 2},
		Env:     map[string]string{"A": "1", "B": "3"},
		Secrets: []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}, {Name: "KEY", Ref: "stored"}},
		Ports:   []core.Port{{Host: 8080, Sandbox: 80}}, Network: core.Network{Mode: core.NetworkNone},
		Labels: map[string]string{"team": "ml"}, Command: []string{"sleep", "10"},
	}
	if diff := specDiff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestNewLaunchFileFromStdin(t *testing.T) {
	app, streams := clitest.New(t, nil)
	streams.SetInput("name: piped\n")
	got, err := parse(t, app, sandboxes.NewLaunch, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.Name != "piped" {
		t.Errorf("name %q, want piped", got.Spec.Name)
	}
}

func TestNewLaunchRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown field", []string{"-f", writeFile(t, "s.yaml", "memroy: 1G\n")}, "memroy"},
		{"value of a secret in a file", []string{"-f", writeFile(t, "s.yaml", "secrets: [{name: A, value: b}]\n")}, "value"},
		{"wrong type", []string{"-f", writeFile(t, "s.yaml", "env: [a]\n")}, "env"},
		{"not YAML", []string{"-f", writeFile(t, "s.yaml", "a: [\n")}, "--file"},
		{"a directory", []string{"-f", t.TempDir()}, "directory"},
		{"secret of a file that is not set", []string{"-f", writeFile(t, "s.yaml", "secrets: [{name: NOPE}]\n")}, "NOPE"},
		{"port that is no number", []string{"-p", "http"}, "not a port"},
		{"port that is too large", []string{"-p", "70000"}, "not a port"},
		{"port on another address", []string{"-p", "0.0.0.0:80:80"}, "not a port"},
		{"volume without a target", []string{"-v", "data"}, "not a volume"},
		{"volume with an unknown mode", []string{"-v", "a:/b:rx"}, "not a volume"},
		{"label without a value", []string{"-l", "team"}, "not a label"},
		{"GPU without a type", []string{"--gpu", ":2"}, "GPU"},
		{"GPU count of zero", []string{"--gpu", "T4:0"}, "GPU"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, _ := clitest.New(t, nil)
			_, err := parse(t, app, sandboxes.NewLaunch, tt.args...)
			wantUsage(t, err, tt.want)
		})
	}
}
