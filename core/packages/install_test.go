package packages

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestCommandIsParsed(t *testing.T) {
	t.Parallel()
	want := Install{Manager: Pip, Packages: []string{"numpy>=2", "it's"}}
	spec, err := want.Command(core.ExecSpec{Env: map[string]string{"PIP_INDEX_URL": "mine"}}, Indexes{
		Pip: "https://user:password@example.com/simple",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := Parse(spec.Command)
	if !ok || got.Manager != want.Manager || !slices.Equal(got.Packages, want.Packages) {
		t.Errorf("parsed is %+v, %t", got, ok)
	}
	if strings.Contains(strings.Join(spec.Command, " "), "password") {
		t.Error("an index is in the command, which the journal keeps")
	}
	if spec.Env["PIP_INDEX_URL"] != "mine" || spec.Env["UV_DEFAULT_INDEX"] == "" {
		t.Errorf("the environment is %v", spec.Env)
	}
	for _, argv := range [][]string{nil, {"sh", "-c", "x", "sb-install", "pip"}, {"pip", "install", "a", "b", "c", "d"}} {
		if i, ok := Parse(argv); ok {
			t.Errorf("%q is %+v", argv, i)
		}
	}
}

func TestWrongPackages(t *testing.T) {
	t.Parallel()
	for _, i := range []Install{
		{Auto, nil}, {Auto, []string{""}}, {Auto, []string{"--upgrade"}}, {Auto, []string{"a\nb"}}, {"conda", []string{"a"}},
	} {
		if _, err := i.Command(core.ExecSpec{}, Indexes{}); !errors.Is(err, core.KindUsage) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

// journal has one installation with the output of a hostile sandbox.
type journal struct {
	exec   core.Exec
	output []core.LogRecord
}

func (j journal) List(context.Context, string) ([]core.Exec, error) {
	return []core.Exec{{ID: "1", Command: []string{"true"}}, j.exec}, nil
}

func (j journal) Logs(context.Context, string, core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		for _, record := range j.output {
			if !yield(record, nil) {
				return
			}
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	spec, err := Install{Auto, []string{"numpy"}}.Command(core.ExecSpec{}, Indexes{})
	if err != nil {
		t.Fatal(err)
	}
	exit := func(code int) *core.Exit { return &core.Exit{Code: code} }
	for _, tt := range []struct {
		name, stdout, stderr string
		exit                 *core.Exit
		want                 State
		manager, version     string
		log                  int
	}{
		{name: "nothing yet", want: Installing, manager: "auto"},
		{name: "waits", stdout: "sb: queued\n", want: Queued, manager: "auto"},
		{name: "runs", stdout: "sb: queued\nsb: installing with uv\n", want: Installing, manager: "uv"},
		{
			name: "split and mixed", stdout: "sb: installing with pip\nCollecting\nsb: installed numpy 2.1\n", stderr: "WARN",
			exit: exit(0), want: Installed, manager: "pip", version: "2.1",
		},
		{
			name: "failed", stdout: "sb: installing with pip\nsb: installed numpy 2.1\n",
			stderr: strings.Repeat("line\n", 100) + "ERROR: none\n", exit: exit(1), want: Failed, manager: "pip", log: logLines,
		},
		{name: "one long line", stdout: strings.Repeat("x", 1<<14), exit: exit(1), want: Failed, manager: "auto", log: 1},
		{
			name: "many versions", stdout: strings.Repeat("sb: installed numpy 2.1\n", 5000), exit: exit(0), want: Installed,
			manager: "auto", version: "2.1",
		},
	} {
		var output []core.LogRecord
		for i := range max(len(tt.stdout), len(tt.stderr)) { // the streams come byte by byte, in turns
			if i < len(tt.stdout) {
				output = append(output, core.LogRecord{Stream: core.Stdout, Data: []byte{tt.stdout[i]}})
			}
			if i < len(tt.stderr) {
				output = append(output, core.LogRecord{Stream: core.Stderr, Data: []byte{tt.stderr[i]}})
			}
		}
		found, err := List(t.Context(), journal{core.Exec{ID: "2", Command: spec.Command, Exit: tt.exit}, output}, "dev")
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %+v, %v", tt.name, found, err)
		}
		got := found[0]
		if got.State != tt.want || got.Manager != tt.manager || got.Versions["numpy"] != tt.version ||
			len(got.Log) != tt.log {
			t.Errorf("%s: %+v", tt.name, got)
		}
		for _, line := range got.Log {
			if len(line) > maxLine {
				t.Errorf("%s: a line of %d bytes", tt.name, len(line))
			}
		}
	}
}
