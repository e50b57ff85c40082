package commands

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/commands/exec"
	"github.com/seed-0724f904/sb/commands/files"
	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// Each row runs one command over the stub with the sandboxes one and two.
func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name     string
		args     []string
		stdin    string
		terminal bool
		typed    string
		code     int
		stdout   string
		stderr   string
	}{
		{name: "exec", args: []string{"exec", "one", "echo", "a", "-b"}, stdout: "a -b\n"},
		{name: "exec keeps stderr apart", args: []string{"exec", "one", "err", "x"}, stderr: "x\n"},
		{name: "exec passes stdin on", args: []string{"exec", "one", "cat"}, stdin: "in", stdout: "in"},
		{name: "exec passes the code through", args: []string{"exec", "one", "exit", "42"}, code: 42},
		{name: "exec of a missing program", args: []string{"exec", "one", "exit", "127"}, code: 127},
		{
			name: "exec over its time", args: []string{"exec", "one", "timeout"}, code: 124,
			stderr: "sb: one: the command's timeout expired\n",
		},
		{
			name: "exec over the memory limit", args: []string{"exec", "one", "oom"}, code: 137,
			stderr: "sb: one: memory use is over the limit\n",
		},
		{
			name: "exec when the sandbox's lifetime ends", args: []string{"exec", "one", "lifetime"}, code: 124,
			stderr: "sb: one: the sandbox's lifetime expired\n",
		},
		{
			name: "exec that fails itself", args: []string{"exec", "one", "fail"}, code: 125,
			stderr: "sb: one: the supervisor has ended\n",
		},
		{
			name: "exec on absent", args: []string{"exec", "absent", "true"}, code: 125,
			stderr: "sb: there is no sandbox \"absent\"\nhint: sb ls --all lists them\n",
		},
		{name: "exec detached", args: []string{"exec", "-d", "one", "echo"}, stdout: "1\n"},
		{name: "shell text", args: []string{"exec", "one", "-c", "x"}},
		{name: "run", args: []string{"run", "--", "echo", "hi"}, stdout: "hi\n"},
		{name: "run passes the code through", args: []string{"run", "exit", "3"}, code: 3},
		{
			name: "run that fails itself", args: []string{"run", "fail"}, code: 125,
			stderr: "sb: stb-3: the supervisor has ended\n",
		},
		{
			name: "run of what no provider has", args: []string{"run", "--gpu", "H100", "true"}, code: 125,
			stderr: "sb: provider \"stub\" does not support --gpu\nhint: sb provider ls --json lists what each provider " +
				"supports\n",
		},
		{name: "launch", args: []string{"launch", "-n", "three"}, stdout: "stb-3\n"},
		{
			name: "launch with a bad name", args: []string{"launch", "-n", "a b"}, code: 2,
			stderr: "sb: name \"a b\" has a character that is not allowed\nhint: use a-z, 0-9, '-', '_' and '.', beginning " +
				"with a letter or digit\n",
		},
		{name: "ls", args: []string{"ls"}, stdout: "" +
			"NAME  ID     PROVIDER  APP  STATE    IMAGE  AGE  ENDS IN\n" +
			"one   stb-1  stub      web  running  host   3m   never\n" +
			"two   stb-2  stub      web  running  host   3m   never\n"},
		{name: "ls by label", args: []string{"ls", "-q", "--label", "name=two"}, stdout: "stb-2\n"},
		{name: "ls of none", args: []string{"ls", "--app", "none", "--json"}, stdout: "[]\n"},
		{
			name: "ls of an unknown provider", args: []string{"ls", "--provider", "nope"}, code: 2,
			stderr: "sb: there is no provider \"nope\"\nhint: the providers are stub\n",
		},
		{name: "terminate", args: []string{"terminate", "one", "two", "one"}, stdout: "stb-1\nstb-2\n"},
		{
			name: "terminate continues after an error", args: []string{"rm", "absent", "two"}, code: 3, stdout: "stb-2\n",
			stderr: "sb: there is no sandbox \"absent\"\nhint: sb ls --all lists them\n",
		},
		{
			name: "terminate all without a terminal", args: []string{"terminate", "--all"}, code: 2,
			stderr: "sb: Terminate 2 sandboxes? There is no terminal to answer on\nhint: add --yes to skip the question\n",
		},
		{name: "terminate all with yes", args: []string{"terminate", "--all", "--yes"}, stdout: "stb-1\nstb-2\n"},
		{
			name: "terminate asks", args: []string{"terminate", "--label", "name=one"}, terminal: true, typed: "y\n",
			stdout: "stb-1\n", stderr: "Terminate one? [y/N] ",
		},
		{
			name: "terminate takes no for an answer", args: []string{"terminate", "--all"}, terminal: true, typed: "\n",
			code: 130, stderr: "Terminate 2 sandboxes? [y/N] sb: nothing was done\n",
		},
		{
			name: "terminate as JSON", args: []string{"terminate", "--json", "one"},
			stdout: "[\n  {\n    \"id\": \"stb-1\",\n    \"name\": \"one\",\n    \"result\": \"terminated\"\n  }\n]\n",
		},
		{
			name: "what the provider cannot do", args: []string{"pause", "one"}, code: 5,
			stderr: "sb: provider \"stub\" does not support \"pause\"\n",
		},
		{
			name: "timeout of what is no duration", args: []string{"timeout", "soon", "one"}, code: 2,
			stderr: "sb: soon: not a duration\nhint: write a number with a unit, such as 90s, 15m or 2h\n",
		},
		{
			name: "timeout of nothing", args: []string{"timeout", "2h"}, code: 2,
			stderr: "sb timeout needs SANDBOX, or one of --all, --label, --app and --provider\nhint: see \"sb timeout " +
				"--help\"\n",
		},
		{
			name: "timeout where it cannot be", args: []string{"timeout", "2h", "one"}, code: 5,
			stderr: "sb: provider \"stub\" does not support \"timeout\"\n",
		},
		{
			name: "completion of timeout", args: []string{"__completeNoDesc", "timeout", "2h", "one", ""}, stdout: "two\n:4\n",
			stderr: "Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
		{
			name: "terminate asks for those named", args: []string{"rm", "one"}, terminal: true, typed: "n\n", code: 130,
			stderr: "Terminate one? [y/N] sb: nothing was done\n",
		},
		{
			name: "kill without a command", args: []string{"kill", "one"}, code: 2,
			stderr: "sb: EXEC, the id of a command in one, is missing\nhint: \"sb ps one\" lists the commands; \"sb terminate " +
				"one\" ends the sandbox\n",
		},
		{
			name: "kill of an empty id", args: []string{"kill", "one", ""}, code: 2,
			stderr: "sb kill: EXEC is empty\nhint: see \"sb kill --help\"\n",
		},
		{
			name: "kill of a word", args: []string{"kill", "one", "two"}, code: 5,
			stderr: "sb: provider \"stub\" does not support \"attach\"\n",
		},
		{
			name: "wait for an empty id", args: []string{"wait", "one", ""}, code: 125,
			stderr: "sb wait: EXEC is empty\nhint: see \"sb wait --help\"\n",
		},
		{
			name: "logs of an empty id", args: []string{"logs", "one", ""}, code: 2,
			stderr: "sb logs: EXEC is empty\nhint: see \"sb logs --help\"\n",
		},
		{name: "provider ls", args: []string{"provider", "ls", "-q"}, stdout: "stub\n"},
		{
			name: "doctor", args: []string{"doctor"},
			stdout: "ok      configuration\nok      provider stub: none, it is a stub\n",
		},
		{
			name: "doctor for a provider that is not there", args: []string{"doctor", "nope"}, code: 2,
			stderr: "sb: there is no provider \"nope\"\nhint: \"sb provider ls\" lists them\n",
		},
		{name: "explain", args: []string{"launch", "--explain"}, stdout: "" +
			"PROVIDER  FITS  CHOSEN  WHY\n" +
			"stub      yes   yes     supports all of the spec\n"},
		{
			name: "completion of sandboxes", args: []string{"__completeNoDesc", "exec", ""}, stdout: "one\ntwo\n:4\n",
			stderr: "Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
		{
			name: "completion of GPUs", args: []string{"__completeNoDesc", "launch", "--gpu", ""}, stdout: "T4\n:4\n",
			stderr: "Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, streams, _ := stubApp(t, "one", "two")
			if tt.stdin != "" {
				streams.SetInput(tt.stdin)
			}
			if tt.terminal {
				streams.SetTTY(80).Type(tt.typed)
			}
			wantRun(t, app, streams, tt.args, tt.code, tt.stdout, tt.stderr)
		})
	}
}

// wantRun runs a command and compares its exit code and output.
func wantRun(t *testing.T, app *cli.App, streams *iostreams.Test, args []string, code int, stdout, stderr string) {
	t.Helper()
	if got := execute(t.Context(), app, args); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	if diff := cmp.Diff(stdout, streams.Out.String()); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stderr, streams.Err.String()); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

// If another client ends a sandbox during a terminate, a selection ignores it. For a named sandbox that is an error.
func TestTerminateMissing(t *testing.T) {
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{args: []string{"terminate", "--all", "--yes"}, stdout: "stb-1\nstb-2\nstb-3\n"},
		{args: []string{"terminate", "--label", "name=one", "--yes"}, stdout: "stb-1\n"},
		{args: []string{"terminate", "one", "three", "two", "absent"}, code: 3, stdout: "stb-3\n", stderr: "" +
			"sb: there is no sandbox \"absent\"\nhint: sb ls --all lists them\n" +
			"sb: stb-1: no such sandbox\nsb: stb-2: no such sandbox\n"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			app, streams, provider := stubApp(t, "one", "two", "three")
			provider.gone = []string{"stb-1", "stb-2"}
			wantRun(t, app, streams, tt.args, tt.code, tt.stdout, tt.stderr)
		})
	}
}

func TestRunTerminatesItsSandbox(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		kept bool
	}{
		{"after the command", []string{"run", "echo"}, false},
		{"after a failure", []string{"run", "fail"}, false},
		{"unless it is kept", []string{"run", "--keep", "echo"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, _, provider := stubApp(t)
			execute(t.Context(), app, tt.args)
			if kept := len(provider.boxes) == 1; kept != tt.kept {
				t.Errorf("the sandbox is kept: %v, want %v", kept, tt.kept)
			}
			if bound := provider.leases["stb-1"].Bound; bound == tt.kept {
				t.Errorf("the lease is bound: %v, want %v", bound, !tt.kept)
			}
		})
	}
}

func TestExecJSON(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want exec.Report
	}{
		{
			"text",
			[]string{"echo", "é"},
			exec.Report{Exec: "1", Stdout: "é\n", StdoutEncoding: "utf-8", StdoutBytes: 3, StderrEncoding: "utf-8"},
		},
		{
			"stderr",
			[]string{"err", "x"},
			exec.Report{Exec: "1", StdoutEncoding: "utf-8", Stderr: "x\n", StderrEncoding: "utf-8", StderrBytes: 2},
		},
		{
			"binary",
			[]string{"binary"},
			exec.Report{Exec: "1", Stdout: "//4=", StdoutEncoding: "base64", StdoutBytes: 2, StderrEncoding: "utf-8"},
		},
		{
			"code",
			[]string{"exit", "9"},
			exec.Report{Exec: "1", StdoutEncoding: "utf-8", StderrEncoding: "utf-8", ExitCode: 9},
		},
		{
			"time limit",
			[]string{"timeout"},
			exec.Report{
				Exec: "1", StdoutEncoding: "utf-8", StderrEncoding: "utf-8", ExitCode: 124, Signal: 15, TimedOut: true,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, streams, _ := stubApp(t, "one")
			code := execute(t.Context(), app, append([]string{"exec", "--json", "one"}, tt.args...))
			if code != tt.want.ExitCode {
				t.Errorf("exit code %d, want %d", code, tt.want.ExitCode)
			}
			var got exec.Report
			if err := json.Unmarshal(streams.Out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// Providers may be slow to answer. So sb repeats no lookup, not even after "not found" or an empty result.
func TestProvidersAreCalledOnce(t *testing.T) {
	for _, args := range [][]string{
		{"exec", "absent", "true"}, {"exec", "--json", "absent", "true"}, {"exec", "-d", "absent", "true"}, {"prune"},
	} {
		app, _, provider := stubApp(t, "one")
		execute(t.Context(), app, args)
		if provider.lists != 1 {
			t.Errorf("%q asks %d times for all sandboxes", args, provider.lists)
		}
	}
}

// The terminal is in raw mode while a command uses it. It is restored however the command ends.
func TestTerminalIsRestored(t *testing.T) {
	for _, command := range []string{"echo", "exit", "fail"} {
		app, streams, provider := stubApp(t, "one")
		streams.SetTTY(123)
		execute(t.Context(), app, []string{"exec", "-it", "one", command})
		if streams.Raw != 0 {
			t.Errorf("%s leaves the terminal raw", command)
		}
		if got := provider.ran[0].Size; got.Cols != 123 {
			t.Errorf("%s has a terminal of size %+v, want 123 columns", command, got)
		}
	}
}

func TestShell(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		app, streams, provider := stubApp(t, "one")
		if terminal {
			streams.SetTTY(80)
		} else {
			streams.SetInput("ls\n")
		}
		if code := execute(t.Context(), app, []string{"shell", "one"}); code != 0 {
			t.Errorf("exit code %d: %s", code, streams.Err)
		}
		spec := provider.ran[0]
		if spec.TTY != terminal || spec.Stdin == nil || !strings.Contains(strings.Join(spec.Command, " "), "/bin/bash") {
			t.Errorf("terminal %v: shell runs as %+v", terminal, spec)
		}
	}
}

// A secret appears neither in the output about a sandbox nor in an error.
func TestSecretsAreNeverShown(t *testing.T) {
	const value = "hunter2"
	app, streams, _ := stubApp(t)
	app.LookupEnv = func(key string) (string, bool) { return value, key == "TOKEN" }
	for _, args := range [][]string{
		{"launch", "-n", "dev", "--secret", "TOKEN", "--json"},
		{"inspect", "dev"},
		{"ls", "--json"},
		{"exec", "--secret", "TOKEN", "dev", "fail"},
		{"history", "--json"},
	} {
		execute(t.Context(), app, args)
	}
	if all := streams.Out.String() + streams.Err.String(); strings.Contains(all, value) ||
		!strings.Contains(all, "TOKEN") {
		t.Errorf("the secret's value is shown, or its name is not:\n%s", all)
	}
}

func TestOperand(t *testing.T) {
	for text, want := range map[string]files.Operand{
		"file":              {Path: "file"},
		"dev:/a":            {Sandbox: "dev", Path: "/a"},
		"dev:":              {Sandbox: "dev", Path: "."},
		"dev:a:b":           {Sandbox: "dev", Path: "a:b"},
		"local/dev:/a":      {Sandbox: "local/dev", Path: "/a"},
		"./dev:/a":          {Path: "./dev:/a"},
		"/x/dev:a":          {Path: "/x/dev:a"},
		"t:/x":              {Sandbox: "t", Path: "/x"},
		":x":                {Path: ":x"},
		"-":                 {Path: "-"},
		"a/b/c:d":           {Path: "a/b/c:d"},
		"loc-abcdefgh:/etc": {Sandbox: "loc-abcdefgh", Path: "/etc"},
	} {
		got, err := files.ParseOperand(text)
		if err != nil || got != want {
			t.Errorf("parseOperand(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	if _, err := files.ParseOperand(""); !errors.Is(err, core.KindUsage) {
		t.Errorf("an empty operand is accepted")
	}
}

// The JSON of a command on several sandboxes has each reference of the command line, also one without a sandbox.
func TestJSONNamesMissingSandboxes(t *testing.T) {
	app, streams := keeperApp(t, nil, fake.KeeperOptions{})
	for _, verb := range []string{"pause", "resume", "stop", "start", "timeout", "terminate"} {
		wantOutput(t, app, streams, "launch -q --persist --name dev-"+verb, "clo-")
		line := verb + " --json dev-" + verb + " nosuch"
		if verb == "timeout" {
			line = "timeout --json 1h dev-timeout nosuch"
		}
		out, err := did(t, app, streams, line)
		if !errors.Is(err, core.KindNotFound) && verb != "resume" && verb != "start" {
			t.Errorf("%s: %v", verb, err)
		}
		var outcomes []cli.Outcome
		if err := json.Unmarshal([]byte(out), &outcomes); err != nil || len(outcomes) != 2 {
			t.Fatalf("%s: %q, %v", verb, out, err)
		}
		if last := outcomes[1]; last.Name != "nosuch" || last.Result != "not_found" || last.Error == "" {
			t.Errorf("%s: %+v", verb, last)
		}
	}
}
