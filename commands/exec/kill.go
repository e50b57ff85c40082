package exec

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// KillOptions are the options of kill.
type KillOptions struct {
	App     *cli.App
	Sandbox string
	Execs   []string
	Signal  int
	JSON    bool
}

// NewKill makes "sb kill".
func NewKill(app *cli.App) *cobra.Command {
	opts := &KillOptions{App: app}
	var signal string
	cmd := &cobra.Command{
		Use:   "kill [-s SIGNAL] SANDBOX EXEC...",
		Short: "Send a signal to commands in a sandbox",
		Long: "Send a signal to running commands. EXEC is an id from \"sb ps\" or \"sb exec --detach\"; 0 is the entry\n" +
			"command.",
		Example:           "  sb kill dev 3\n  sb kill -s KILL dev 3 4",
		ValidArgsFunction: app.CompleteExecs,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "" {
				return core.Errorf(core.KindUsage, "kill", args[0], "EXEC, the id of a command in %s, is missing", args[0]).
					WithHint("%q lists the commands; %q ends the sandbox", "sb ps "+args[0], "sb terminate "+args[0])
			}
			if err := cli.AtLeast("SANDBOX", "EXEC")(cmd, args); err != nil {
				return err
			}
			if slices.Contains(args, "") {
				return cli.Usagef(cmd, "%s: EXEC is empty", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			number, ok := linuxSignal(signal)
			if !ok {
				return cli.Usagef(cmd, "there is no signal %q", signal)
			}
			opts.Sandbox, opts.Execs, opts.Signal = args[0], args[1:], number
			return runKill(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "`SIGNAL` by name or number")
	cli.JSONFlag(cmd, &opts.JSON, cli.OutcomeFields("signaled"))
	cli.Complete(cmd, "signal", cli.Fixed("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"))
	return cmd
}

func runKill(ctx context.Context, opts *KillOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	box, err := svc.Sandboxes.Resolve(ctx, opts.Sandbox)
	if err != nil {
		return err
	}
	if err := allThere(ctx, svc, box, opts.Execs); err != nil {
		return err
	}
	return cli.ForEachName(opts.App, opts.Execs, "signaled", opts.JSON, func(command string) (string, error) {
		return "", svc.Execs.Kill(ctx, box.Ref(), command, opts.Signal)
	})
}

// allThere checks that all commands exist, before the first of them gets a signal. A single command needs no check.
func allThere(ctx context.Context, svc *service.Service, box core.Sandbox, execs []string) error {
	if len(execs) == 1 {
		return nil
	}
	var failed []error
	for _, command := range execs {
		process, err := svc.Execs.Attach(ctx, box.Ref(), command, core.Streams{})
		if err == nil {
			err = process.Close()
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// linuxSignal returns the number of a Linux signal, because every sandbox runs Linux. "TERM", "sigterm" and "15" are
// the same.
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
