package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// ExecFlags are the flags for running a command in a sandbox.
type ExecFlags struct {
	EnvFlags

	Interactive, TTY bool
	NoStdin          bool
	Workdir, User    string
	Timeout          DurationValue
	Shell            string
}

// RegisterStreams adds the flags that run shares with exec. noStdin is the short form of --no-stdin, as in ssh. It is
// "" for commands with -n for the sandbox's name.
func (f *ExecFlags) RegisterStreams(cmd *cobra.Command, noStdin string) {
	flags := cmd.Flags()
	flags.BoolVarP(
		&f.Interactive, "interactive", "i", false, "forward stdin of a terminal, too (a pipe or a file is always forwarded)",
	)
	flags.BoolVarP(
		&f.NoStdin, "no-stdin", noStdin, false, "use an empty stdin, and read nothing from a pipe or a file",
	)
	flags.BoolVarP(&f.TTY, "tty", "t", false, "allocate a terminal; stderr is then part of stdout")
	flags.StringVarP(&f.Shell, "command", "c", "", "run `TEXT` with sh -c; further words are its $0, $1 and so on")
}

// Register adds all flags of a command that runs a command.
func (f *ExecFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.RegisterStreams(cmd, "n")
	f.RegisterPlace(cmd)
	flags.Var(&f.Timeout, "timeout", "end the command after this time, with exit code 124")
}

// RegisterPlace adds the flags for the environment and place that a command runs in.
func (f *ExecFlags) RegisterPlace(cmd *cobra.Command) {
	f.EnvFlags.Register(cmd.Flags())
	cmd.Flags().StringVarP(&f.Workdir, "workdir", "w", "", "working directory `DIR` (default: the sandbox's)")
	cmd.Flags().StringVarP(&f.User, "user", "u", "", "run as `USER[:GROUP]` (default: the sandbox's)")
}

// Argv returns the command to run: words, or a shell that runs TEXT with words as $0, $1 and so on.
func (f *ExecFlags) Argv(cmd *cobra.Command, words []string) ([]string, error) {
	if cmd.Flags().Changed("command") {
		return append([]string{"/bin/sh", "-c", f.Shell}, words...), nil
	}
	if len(words) == 0 {
		return nil, Usagef(cmd, "%s needs a command", cmd.CommandPath())
	}
	return words, nil
}

// Spec makes the exec spec, without streams.
func (f *ExecFlags) Spec(app *App, argv []string) (core.ExecSpec, error) {
	env, err := f.Environment(app.LookupEnv)
	if err != nil {
		return core.ExecSpec{}, err
	}
	secrets, err := f.ReadSecrets(app.LookupEnv, app.Streams)
	if err != nil {
		return core.ExecSpec{}, err
	}
	return core.ExecSpec{
		Command: argv, Env: env, Secrets: secrets,
		Workdir: f.Workdir, User: f.User,
		TTY: f.TTY, Timeout: time.Duration(f.Timeout),
	}, nil
}

// Connect sets this program's streams in spec. It passes stdin on if a flag requests it or if stdin has data.
func (f *ExecFlags) Connect(app *App, spec *core.ExecSpec) {
	if !f.NoStdin && (f.Interactive || f.TTY || app.Streams.InData()) {
		spec.Stdin = app.Streams.In
	}
	spec.Stdout, spec.Stderr = app.Streams.Out, app.Streams.Err
}
