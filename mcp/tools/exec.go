package tools

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// ExecIn is the input of exec.
type ExecIn struct {
	Sandbox string            `json:"sandbox" jsonschema:"id or name"`
	Command string            `json:"command,omitempty" jsonschema:"text that a shell runs; pipes, && and quotes work"`
	Argv    []string          `json:"argv,omitempty" jsonschema:"program and arguments, instead of command, without a shell"`
	Workdir string            `json:"workdir,omitempty" jsonschema:"absolute path; each command starts there, cd does not last"`
	Env     map[string]string `json:"env,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty" jsonschema:"environment variables whose values are kept out of output and logs"`
	Stdin   string            `json:"stdin,omitempty" jsonschema:"input for the command"`
	Open    bool              `json:"keep_stdin_open,omitempty" jsonschema:"leave stdin open so that exec_wait can send more"`
	Timeout int               `json:"timeout_seconds,omitempty" jsonschema:"end the command after that long"`
	Wait    *int              `json:"wait_seconds,omitempty" jsonschema:"answer within that time, or sooner; the command keeps running"`
	Detach  bool              `json:"background,omitempty" jsonschema:"answer at once and leave it running"`
	Budget  int               `json:"max_output,omitempty" jsonschema:"characters of output in the reply"`
}

type waitIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Exec    string `json:"exec_id" jsonschema:"from the result of exec, run_code or packages_install"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"from the result before, to get only newer output; left out: from the beginning"`
	Wait    *int   `json:"wait_seconds,omitempty" jsonschema:"how long to wait for its end; 0 only looks"`
	Stdin   string `json:"stdin,omitempty" jsonschema:"input to send first"`
	Close   bool   `json:"close_stdin,omitempty" jsonschema:"end its stdin"`
	Budget  int    `json:"max_output,omitempty" jsonschema:"characters of output in the reply"`
}

type killIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Exec    string `json:"exec_id"`
	Signal  string `json:"signal,omitempty" enum:"TERM|KILL|INT|HUP|QUIT|USR1|USR2|STOP|CONT" default:"TERM"`
}

func execTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "exec", Title: "Run a command", Toolset: setup.Exec, Destructive: true, OpenWorld: true,
			Description: "Run a command in a sandbox and return exit code, stdout and stderr. A long one keeps running: " +
				"its result has running: true, and exec_wait reads the rest.",
		}, RunExec),
		Define(Tool{
			Name: "exec_wait", Title: "Wait for a command", Toolset: setup.Exec, OpenWorld: true, LikeExec: true,
			Description: "Wait for a command, read its output and result, or send it input. Works after a restart of the " +
				"server, and for commands that others started.",
		}, waitExec),
		Define(Tool{
			Name: "exec_kill", Title: "End a command", Toolset: setup.Exec, Destructive: true, Idempotent: true, LikeExec: true,
			Description: "Send a signal to a running command and report the result.",
		}, killExec),
		codeTool(),
	}
}

// deadline returns the soft deadline of a call: the given seconds, at most the server's. A client may give up on a
// longer call, and cancel its command.
func (c *Call) deadline(wanted *int) time.Duration {
	if wanted == nil {
		return c.Host.Options.SoftDeadline
	}
	return min(max(seconds(*wanted), 0), c.Host.Options.SoftDeadline)
}

// seconds converts a number of seconds. It clamps at a century, since longer times overflow nanoseconds.
func seconds(n int) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(max(n, -century), century)) * time.Second
}

// Budget returns the number of characters for a reply; 0 selects the default of the call.
func (c *Call) Budget(requested int) int {
	return reply.BudgetOf(cmp.Or(requested, c.MaxOutput, c.Host.Options.Budget))
}

// RunExec runs a command in a sandbox.
func RunExec(ctx context.Context, c *Call, in ExecIn) (ExecResult, error) {
	argv := in.Argv
	switch {
	case (in.Command == "") == (len(argv) == 0):
		return ExecResult{}, core.Errorf(core.KindUsage, "exec", "", "give either command or argv")
	case in.Command != "":
		argv = []string{"/bin/sh", "-c", in.Command}
	}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return ExecResult{}, err
	}
	return c.Execute(ctx, sb, Execution{
		Spec: core.ExecSpec{
			Command: argv, Workdir: in.Workdir, Env: in.Env, Secrets: secretsOf(in.Secrets),
			Timeout: seconds(in.Timeout),
		},
		input: in.Stdin, open: in.Open, detach: in.Detach, Wait: c.deadline(in.Wait), Budget: c.Budget(in.Budget),
	})
}

func waitExec(ctx context.Context, c *Call, in waitIn) (ExecResult, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return ExecResult{}, err
	}
	if in.Stdin != "" || in.Close {
		e := c.Host.running.get(sb.ID, in.Exec)
		if e == nil {
			return ExecResult{}, core.Errorf(
				core.KindConflict, "exec", "", "command %s has no stdin that this server could write to", in.Exec,
			).
				WithHint("it has ended, or was started elsewhere or without keep_stdin_open")
		}
		if err := e.send(in.Stdin, in.Close); err != nil {
			return ExecResult{}, err
		}
	}
	e := c.Host.running.get(sb.ID, in.Exec)
	return c.readOrSee(
		ctx, sb, in.Exec, e, reading{cursor: in.Cursor, wait: c.deadline(in.Wait), budget: c.Budget(in.Budget)},
	)
}

// signalNumber returns the number of a signal, which is the same on every Linux.
func signalNumber(name string) int {
	return map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "KILL": sigKill, "USR1": 10, "USR2": 12, "": sigTerm, "TERM": sigTerm, "CONT": 18,
		"STOP": 19,
	}[name]
}

func killExec(ctx context.Context, c *Call, in killIn) (ExecResult, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return ExecResult{}, err
	}
	e := c.Host.running.get(sb.ID, in.Exec)
	if err := kill(ctx, c.Service, sb, in.Exec, e, signalNumber(in.Signal)); err != nil {
		return ExecResult{}, noExec(err, sb, in.Exec)
	}
	wait := killGrace
	if in.Signal == "STOP" || in.Signal == "CONT" {
		wait = 0
	}
	result, err := c.readOrSee(ctx, sb, in.Exec, e, reading{wait: wait, budget: c.Budget(0)})
	if err == nil && result.Running {
		result.Note = "The signal was sent; the command still runs. KILL cannot be ignored."
	}
	return result, err
}
