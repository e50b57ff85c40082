package commands

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/commands/exec"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
)

func TestNewExec(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		sandbox string
		command []string
	}{
		{"plain", []string{"dev", "ls"}, "dev", []string{"ls"}},
		{
			"flags of the command are its own",
			[]string{"dev", "ls", "-la", "--help", "-t"},
			"dev",
			[]string{"ls", "-la", "--help", "-t"},
		},
		{"two dashes", []string{"dev", "--", "-weird", "--", "x"}, "dev", []string{"-weird", "--", "x"}},
		{"two dashes first", []string{"--", "dev", "-weird"}, "dev", []string{"-weird"}},
		{"two dashes in the command", []string{"dev", "git", "log", "--", "f"}, "dev", []string{"git", "log", "--", "f"}},
		{
			"flags before and after the sandbox",
			[]string{"-w", "/a", "dev", "--user", "7", "id", "-u"},
			"dev",
			[]string{"id", "-u"},
		},
		{
			"words untouched",
			[]string{"dev", "printf", "%s", "a b", "", "'q'"},
			"dev",
			[]string{"printf", "%s", "a b", "", "'q'"},
		},
		{
			"shell text",
			[]string{"dev", "-c", "echo $0 $1", "x", "y"},
			"dev",
			[]string{"/bin/sh", "-c", "echo $0 $1", "x", "y"},
		},
		{"a command named like a flag's value", []string{"dev", "-e", "A=1", "env"}, "dev", []string{"env"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, _ := clitest.New(t, nil)
			got, err := parse(t, app, exec.NewExec, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got.Sandbox != tt.sandbox {
				t.Errorf("sandbox %q, want %q", got.Sandbox, tt.sandbox)
			}
			if diff := cmp.Diff(tt.command, got.Spec.Command); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewExecFlags(t *testing.T) {
	app, _ := clitest.New(t, map[string]string{"FROM": "outside", "TOKEN": "s3cret"})
	got, err := parse(t, app, exec.NewExec, "-e", "A=1=2", "-e", "FROM", "--secret", "TOKEN", "-w", "/w", "-u",
		"1000:1000",
		"--timeout", "1m30s", "-i", "dev", "true")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "1=2", "FROM": "outside"}, got.Spec.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if len(got.Spec.Secrets) != 1 || got.Spec.Secrets[0].Name != "TOKEN" ||
		got.Spec.Secrets[0].Value.Reveal() != "s3cret" {
		t.Errorf("secrets: %+v", got.Spec.Secrets)
	}
	if got.Spec.Workdir != "/w" || got.Spec.User != "1000:1000" || got.Spec.Timeout != 90*time.Second {
		t.Errorf("spec: %+v", got.Spec)
	}
}

func TestNewExecStdin(t *testing.T) {
	for _, tt := range []struct {
		name     string
		args     []string
		terminal bool
		data     bool
		want     bool
	}{
		{"nothing there", []string{"dev", "cat"}, false, false, false},
		{"a pipe is passed on", []string{"dev", "cat"}, false, true, true},
		{"a terminal is not", []string{"dev", "cat"}, true, false, false},
		{"unless asked to", []string{"-i", "dev", "cat"}, true, false, true},
		{"a guest's terminal needs one", []string{"-t", "dev", "cat"}, true, false, true},
		{"nothing is passed to a detached command", []string{"-d", "dev", "cat"}, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, streams := clitest.New(t, nil)
			if tt.terminal {
				streams.SetTTY(80)
			}
			if tt.data {
				streams.SetInput("x")
			}
			got, err := parse(t, app, exec.NewExec, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Spec.Stdin != nil) != tt.want {
				t.Errorf("stdin is passed on: %v, want %v", got.Spec.Stdin != nil, tt.want)
			}
		})
	}
}

func TestNewExecRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no sandbox", nil, "needs SANDBOX"},
		{"no command", []string{"dev"}, "needs a command"},
		{"no command after dashes", []string{"dev", "--"}, "needs a command"},
		{"json and terminal", []string{"--json", "-t", "dev", "sh"}, "--json"},
		{"detached and interactive", []string{"-d", "-i", "dev", "sh"}, "--detach"},
		{"variable that is not set", []string{"-e", "NOPE", "dev", "true"}, "not set"},
		{"variable without a name", []string{"-e", "=x", "dev", "true"}, "KEY=VALUE"},
		{"secret that is not set", []string{"--secret", "NOPE", "dev", "true"}, "not set"},
		{"negative timeout", []string{"--timeout=-1s", "dev", "true"}, "not a duration"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, _ := clitest.New(t, nil)
			_, err := parse(t, app, exec.NewExec, tt.args...)
			wantUsage(t, err, tt.want)
		})
	}
}
