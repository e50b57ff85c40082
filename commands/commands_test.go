package commands

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/clients"
)

// parse runs one command with args up to the start of its work, and returns its options.
func parse[O any](
	t *testing.T, app *cli.App, newCmd func(*cli.App, func(context.Context, *O) error) *cobra.Command, args ...string,
) (*O, error) {
	t.Helper()
	var got *O
	root := NewRoot(app)
	cmd := newCmd(app, func(_ context.Context, opts *O) error {
		got = opts
		return nil
	})
	for _, old := range root.Commands() {
		if old.Name() == cmd.Name() {
			root.RemoveCommand(old)
		}
	}
	root.AddCommand(cmd)
	root.SetArgs(append([]string{cmd.Name()}, args...))
	err := root.ExecuteContext(t.Context())
	return got, err
}

// wantUsage checks that err is a usage error and contains want.
func wantUsage(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", want)
	}
	if kind := core.KindOf(err); kind != core.KindUsage {
		t.Errorf("error %q is of kind %v, want usage", err, kind)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say %q", err, want)
	}
}

// A command that is made alone is the one of the whole tree.
func TestOneCommandIsMadeAlone(t *testing.T) {
	app, _ := clitest.New(t, nil)
	whole := map[string]string{}
	for _, cmd := range NewRoot(app).Commands() {
		whole[cmd.Name()] = cmd.UsageString()
	}
	for _, group := range groups() {
		for _, command := range group.commands {
			root := newRoot(app, []string{command.name, "--help"})
			made := root.Commands()
			var cmd *cobra.Command
			for _, c := range made {
				if c.GroupID == group.id && c.Name() == command.name {
					cmd = c
				}
			}
			switch {
			case cmd == nil:
				t.Errorf("%s is missing in its own tree", command.name)
			case cmd.UsageString() != whole[command.name]:
				t.Errorf("%s has another usage when it is made alone", command.name)
			case len(made) > 3: // with the two hidden ones
				t.Errorf("%s comes with %d commands", command.name, len(made))
			}
		}
	}
	for _, args := range [][]string{nil, {"exce"}, {"help", "exec"}, {"--help"}, {"sh"}, {"__complete", "exec", ""}} {
		if got := len(newRoot(app, args).Commands()); got < len(whole) {
			t.Errorf("%q has %d commands, want all %d", args, got, len(whole))
		}
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(&cli.SignalError{Signal: os.Interrupt})
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"nothing", t.Context(), nil, 0},
		{"unclassified", t.Context(), errors.New("boom"), 1},
		{"usage", t.Context(), core.Errorf(core.KindUsage, "", "", "x"), 2},
		{"not found", t.Context(), core.Errorf(core.KindNotFound, "", "", "x"), 3},
		{"conflict", t.Context(), core.Errorf(core.KindConflict, "", "", "x"), 4},
		{"unsupported", t.Context(), core.Errorf(core.KindUnsupported, "", "", "x"), 5},
		{"unavailable", t.Context(), core.Errorf(core.KindUnavailable, "", "", "x"), 6},
		{"unauthorized", t.Context(), os.ErrPermission, 7},
		{"timeout", t.Context(), context.DeadlineExceeded, 8},
		{"exhausted", t.Context(), core.Errorf(core.KindExhausted, "", "", "x"), 9},
		{"canceled", t.Context(), context.Canceled, 130},
		{"interrupted", interrupted, context.Canceled, 130},
		{"guest", t.Context(), cli.PassThrough(42), 42},
		{"own failure", t.Context(), cli.OwnFailure(core.Errorf(core.KindNotFound, "", "", "x")), 125},
		{"own failure keeps a guest's code", t.Context(), cli.OwnFailure(cli.PassThrough(7)), 7},
		{"own failure keeps an interrupt", interrupted, cli.OwnFailure(context.Canceled), 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.CodeOf(tt.ctx, tt.err); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestErrorsOnStderr(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown command", []string{"lss"}, 2, "sb has no command \"lss\"; did you mean \"ls\"?\nhint: see \"sb --help\"\n"},
		{
			"unknown command with a flag",
			[]string{"lunch", "--name", "x"},
			2,
			"sb has no command \"lunch\"; did you mean \"launch\"?\nhint: see \"sb --help\"\n",
		},
		{"unknown flag", []string{"--name", "x"}, 2, "sb: unknown flag: --name\nhint: see \"sb --help\"\n"},
		{
			"unknown subcommand",
			[]string{"fs", "cp"},
			2,
			"sb fs has no command \"cp\"; did you mean \"ls\"?\nhint: see \"sb fs --help\"\n",
		},
		{"unknown flag", []string{"ls", "--nope"}, 2, "sb: unknown flag: --nope\nhint: see \"sb ls --help\"\n"},
		{
			"misspelled flag",
			[]string{"launch", "--persistent"},
			2,
			"sb: unknown flag: --persistent; did you mean --persist?\nhint: see \"sb launch --help\"\n",
		},
		{
			"help for what is not there",
			[]string{"help", "fs", "cp"},
			2,
			"sb fs has no command \"cp\"; did you mean \"ls\"?\nhint: see \"sb fs --help\"\n",
		},
		{"no client", []string{"mcp", "uninstall"}, 2, "sb mcp uninstall needs --client, with one of " +
			strings.Join(clients.Names(), ", ") + "\nhint: see \"sb mcp uninstall --help\"\n"},
		{"missing argument", []string{"ps"}, 2, "sb ps needs SANDBOX\nhint: see \"sb ps --help\"\n"},
		{"empty argument", []string{"ps", ""}, 2, "sb ps: SANDBOX is empty\nhint: see \"sb ps --help\"\n"},
		{"extra argument", []string{"ps", "a", "b"}, 2, "sb ps takes no argument \"b\"\nhint: see \"sb ps --help\"\n"},
		{"broken configuration", []string{"ls"}, 2, "sb: config.yaml: broken configuration\n"},
		{
			"as JSON",
			[]string{"ls", "--json"},
			2,
			`{"error":"config.yaml: broken configuration","kind":"usage","op":"config","subject":"config.yaml","exit_code":2}` + "\n",
		},
		{"exec fails with 125", []string{"exec", "dev", "true"}, 125, "sb: config.yaml: broken configuration\n"},
		{
			"bad usage of exec fails with 125",
			[]string{"exec", "dev"},
			125,
			"sb exec needs a command\nhint: see \"sb exec --help\"\n",
		},
		{
			"bad flag of exec fails with 125",
			[]string{"exec", "dev", "--nope", "true"},
			125,
			"sb: unknown flag: --nope\nhint: see \"sb exec --help\"\n",
		},
		{
			"bad size",
			[]string{"launch", "--memory", "lots"},
			2,
			"sb: invalid argument \"lots\" for \"-m, --memory\" flag: lots: not a size\nhint: write a number with a unit, " +
				"such as 512MiB or 2G\n",
		},
		{
			"negative size",
			[]string{"launch", "--memory=-1G"},
			2,
			"sb: invalid argument \"-1G\" for \"-m, --memory\" flag: -1G: not a size\nhint: write a number with a unit, such " +
				"as 512MiB or 2G\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, streams := clitest.New(t, nil)
			if code := execute(t.Context(), app, tt.args); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := streams.Err.String(); got != tt.want {
				t.Errorf("stderr:\n%s\nwant:\n%s", got, tt.want)
			}
			if streams.Out.Len() > 0 {
				t.Errorf("stdout is not empty: %q", streams.Out)
			}
		})
	}
}

// These commands need no configuration and work with a broken one.
func TestBrokenConfiguration(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--help"},
		{"launch", "--help"},
		{"help", "exec"},
		{"--version"},
		{"version"},
		{"version", "--json"},
		{"completion", "bash"},
		{"completion", "zsh"},
		{"completion", "fish"},
		{"completion", "powershell"},
		{"__complete", "exec", ""},
		{"__complete", "launch", "--gpu", ""},
		{"docs", t.TempDir()},
	} {
		app, streams := clitest.New(t, nil)
		if code := execute(t.Context(), app, args); code != 0 {
			t.Errorf("sb %s ends with %d: %s", strings.Join(args, " "), code, streams.Err)
		}
	}
	app, streams := clitest.New(t, nil)
	if code := execute(t.Context(), app, []string{"doctor"}); code != 2 {
		t.Errorf("doctor ends with %d, want 2", code)
	}
	if want := "error   configuration: config.yaml: broken configuration\n"; streams.Out.String() != want {
		t.Errorf("doctor says %q, want %q", streams.Out, want)
	}
}

// Each command has a short help, a long help of one or two sentences, and an example. Only a command with special exit
// codes lists them.
func TestHelpIsComplete(t *testing.T) {
	app, _ := clitest.New(t, nil)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" && cmd.Runnable() {
			t.Errorf("%s lacks a short help, a long help or an example", cmd.CommandPath())
		}
		if cmd.Annotations[cli.GuestCode] != "" && !strings.Contains(cmd.Long, "EXIT CODES") {
			t.Errorf("%s exits with a guest's code but its help lacks EXIT CODES", cmd.CommandPath())
		}
		for line := range strings.SplitSeq(cli.ExitCodesHelp, "\n") {
			if strings.HasPrefix(line, "  ") && strings.Contains(cmd.Long, line) && cmd.Name() != "exit-codes" {
				t.Errorf("%s repeats an exit code of \"sb help exit-codes\": %s", cmd.CommandPath(), line)
			}
		}
		prose, _, _ := strings.Cut(cmd.Long, "\n\nEXIT CODES")
		prose, _, _ = strings.Cut(prose, "\n\nFIELDS")
		sentences := regexp.MustCompile(`[.?!]\s+`).Split(prose, -1)
		if len(sentences) > 2 && cmd.Name() != "exit-codes" {
			t.Errorf("%s: %d sentences before the examples, want at most 2: move the others to flags or docs/",
				cmd.CommandPath(), len(sentences))
		}
		for _, sentence := range sentences {
			if words := strings.Fields(sentence); len(words) > 25 && cmd.Name() != "exit-codes" {
				t.Errorf("%s: a sentence of %d words: %s", cmd.CommandPath(), len(words), sentence)
			}
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short help ends with a dot", cmd.CommandPath())
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if len(line) > 110 {
				t.Errorf("%s: help line of %d characters: %s", cmd.CommandPath(), len(line), line)
			}
		}
	}
	walk(NewRoot(app))
}

// Each example of each command is accepted by its parser.
func TestExamplesParse(t *testing.T) {
	app, _ := clitest.New(t, nil)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			_, call, ok := strings.Cut(line, "sb ")
			if !ok {
				continue
			}
			call = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(call, "QUOTED")
			call = strings.ReplaceAll(call, "$$", "1") // the shell's own process
			if cut := strings.IndexAny(call, "|><&$"); cut >= 0 {
				call = call[:cut] // the rest belongs to the shell
			}
			words := strings.Fields(call)
			found, rest, err := NewRoot(app).Find(words)
			if err != nil || (!found.Runnable() && len(rest) > 0) {
				t.Errorf("%s: example %q names no command", cmd.CommandPath(), line)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
			}
		}
	}
	walk(NewRoot(app))
}

// An example that takes a field out of JSON takes one that the help documents.
func TestExamplesOfJQTakeFieldsThatExist(t *testing.T) {
	app, _ := clitest.New(t, nil)
	field := regexp.MustCompile(`\.([a-z_]+)|[{,] *([a-z_]+)`)
	var visit func(*cobra.Command)
	seen := 0
	visit = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			visit(child)
		}
		for line := range strings.Lines(cmd.Example) {
			_, filter, found := strings.Cut(line, "| jq ")
			if !found {
				continue
			}
			seen++
			documented := cmd.Long
			if flag := cmd.Flags().Lookup("json"); flag != nil {
				documented += flag.Usage
			}
			for _, match := range field.FindAllStringSubmatch(filter, -1) {
				if name := match[1] + match[2]; !regexp.MustCompile(`\b` + name + `\b`).MatchString(documented) {
					t.Errorf("%s: %q takes %q, which the help does not name", cmd.CommandPath(), strings.TrimSpace(line), name)
				}
			}
		}
	}
	visit(NewRoot(app))
	if seen < 5 {
		t.Errorf("only %d examples were found", seen)
	}
}
