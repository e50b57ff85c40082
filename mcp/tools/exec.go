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
	Sandbox string            `json:"sandbox"`
	Command string            `json:"command,omitempty" jsonschema:"a shell runs this text"`
	Argv    []string          `json:"argv,omitempty" jsonschema:"program and arguments without a shell, instead of command"`
	Workdir string            `json:"workdir,omitempty" jsonschema:"directory of this command; a cd does not last"`
	Env     map[string]string `json:"env,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty" jsonschema:"like env, but kept out of output and logs"`
	Stdin   string            `json:"stdin,omitempty"`
	Open    bool              `json:"keep_stdin_open,omitempty" jsonschema:"lets exec_wait send more input"`
	Timeout int               `json:"timeout_seconds,omitempty" jsonschema:"kills the command after this time"`
	Wait    *int              `json:"wait_seconds,omitempty" jsonschema:"answers after this time at the latest; the command keeps running"`
	Detach  bool              `json:"background,omitempty" jsonschema:"answers at once; for servers and long jobs"`
	Budget  int               `json:"max_output,omitempty" jsonschema:"characters"`
}

type waitIn struct {
	Sandbox string `json:"sandbox"`
	Exec    string `json:"exec_id" jsonschema:"from the result that started it"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"from the last result, for newer output only"`
	Wait    *int   `json:"wait_seconds,omitempty" jsonschema:"0 does not wait for its end"`
	Stdin   string `json:"stdin,omitempty" jsonschema:"sent first"`
	Close   bool   `json:"close_stdin,omitempty" jsonschema:"ends its stdin"`
	Budget  int    `json:"max_output,omitempty" jsonschema:"characters"`
}

type killIn struct {
	Sandbox string `json:"sandbox"`
	Exec    string `json:"exec_id"`
	Signal  string `json:"signal,omitempty" enum:"TERM|KILL|INT|HUP|QUIT|USR1|USR2|STOP|CONT" default:"TERM"`
}

func execTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "exec", Title: "Run a command", Toolset: setup.Exec, Destructive: true, OpenWorld: true,
			Description: "Run a command in a sandbox and return its exit code, stdout and stderr. A command that " +
				"outlasts " +
				"this call keeps running, and exec_wait returns the rest.",
		}, RunExec),
		Define(Tool{
			Name: "exec_wait", Title: "Wait for a command", Toolset: setup.Exec, OpenWorld: true,
			Description: "Wait for a running command and return its output and exit code, or send it input. Every " +
				"command " +
				"of a sandbox can be waited for, also one that ended or that another client started.",
		}, waitExec),
		Define(Tool{
			Name: "exec_kill", Title: "End a command", Toolset: setup.Exec, Destructive: true, Idempotent: true,
			Description: "Send a signal to a running command and return its state. The default, TERM, asks it to end.",
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
	result, err := c.readOrSee(
		ctx, sb, in.Exec, e, reading{cursor: in.Cursor, wait: c.deadline(in.Wait), budget: c.Budget(in.Budget)},
	)
	if err == nil && !result.Running {
		c.Host.single.collect(sb.ID)
	}
	return result, err
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
