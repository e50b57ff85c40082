package commands

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// KillOptions are what kill works with.
type KillOptions struct {
	App     *App
	Sandbox string
	Execs   []string
	Signal  int
	JSON    bool
}

// NewKill makes "sb kill".
func NewKill(app *App, runF func(context.Context, *KillOptions) error) *cobra.Command {
	opts := &KillOptions{App: app}
	var signal string
	var yes bool
	cmd := &cobra.Command{
		Use:   "kill [-s SIGNAL] SANDBOX [EXEC...]",
		Short: "Send a signal to commands in a sandbox, or end sandboxes",
		Long: "Send a signal, SIGTERM unless -s says another, to commands that run in a sandbox. EXEC is an id of\n" +
			"\"sb ps\", a number; 0 is the entry command. Without EXEC, or with names of more sandboxes in its\n" +
			"place, it is \"sb terminate\"." + exitStatusHelp,
		Example:           "  sb kill dev 3\n  sb kill -s KILL dev 3 4\n  sb kill dev",
		ValidArgsFunction: app.completeExecs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := atLeast("SANDBOX")(cmd, args); err != nil {
				return err
			}
			if len(args) == 1 || slices.ContainsFunc(args[1:], notExec) {
				if cmd.Flags().Changed("signal") {
					return core.Errorf(core.KindUsage, "kill", args[0], "a signal is for commands, and EXEC, the id of one, is missing").
						WithHint("%q lists the commands", "sb ps "+args[0])
				}
				return runTerminate(cmd.Context(), &TerminateOptions{App: app, Refs: args, Yes: yes, JSON: opts.JSON})
			}
			number, ok := linuxSignal(signal)
			if !ok {
				return usagef(cmd, "no signal is named %q", signal)
			}
			opts.Sandbox, opts.Execs, opts.Signal = args[0], args[1:], number
			return orRun(runF, runKill)(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "`SIGNAL` by name or number")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before a sandbox is ended")
	jsonFlag(cmd, &opts.JSON, outcomeFields("signaled")+"; of sandboxes as in terminate")
	complete(cmd, "signal", fixed("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"))
	return cmd
}

// notExec says whether an argument cannot be the id of a command.
func notExec(arg string) bool {
	_, err := strconv.ParseUint(arg, 10, 32)
	return err != nil
}

func runKill(ctx context.Context, opts *KillOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	return forEachName(opts.App, opts.Execs, "signaled", opts.JSON, func(exec string) (string, error) {
		return "", service.Kill(ctx, opts.Sandbox, exec, opts.Signal)
	})
}

// linuxSignal returns the number of a signal in a sandbox, which is Linux
// wherever sb runs: "TERM", "sigterm" and "15" are the same.
func linuxSignal(name string) (number int, ok bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return n, n >= 1 && n <= 64
	}
	names := strings.Fields("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT " +
		"CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for i, known := range names {
		if name == known {
			return i + 1, true
		}
	}
	return 0, false
}
