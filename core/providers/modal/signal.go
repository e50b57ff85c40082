package modal

import (
	"context"
	"strconv"

	"github.com/seed-0724f904/sb/core"
)

// Signal numbers of Linux, which runs inside sandboxes, independent of the client's system.
const (
	sigHup  = 1
	sigKill = 9
	sigPipe = 13
)

// findProcesses sets $pids to the processes with a command's mark in their environment. Modal has no call for signals
// and does not report process ids.
const findProcesses = `pids=; for e in /proc/[0-9]*/environ; do
if tr '\000' '\n' <"$e" 2>/dev/null | grep -qx "` + markVariable +
	`=$1"; then p=${e#/proc/}; pids="$pids ${p%/environ}"; fi; done
[ -n "$pids" ] || exit 3
`

const killProcesses = findProcesses + `hit=; for p in $pids; do if kill -"$2" "$p"; then hit=1; elif [ -d "/proc/$p" ]; then exit 1; fi; done; [ "$hit" ] || exit 3`

// resizeTerminal sets the size of the terminal of the first process that has one.
const resizeTerminal = findProcesses + `for p in $pids; do t=$(readlink "/proc/$p/fd/0"); case $t in /dev/*) exec stty rows "$2" cols "$3" <"$t";; esac; done; exit 4`

// Signal implements core.Process.
func (c *process) Signal(ctx context.Context, signal int) error {
	return c.control(ctx, "signal", killProcesses, strconv.Itoa(signal))
}

// Resize implements core.Process.
func (c *process) Resize(ctx context.Context, size core.TerminalSize) error {
	if !c.tty {
		return core.Errorf(core.KindConflict, "modal.resize", c.id, "the command has no terminal")
	}
	return c.control(ctx, "resize", resizeTerminal, strconv.Itoa(int(size.Rows)), strconv.Itoa(int(size.Cols)))
}

// control runs a script beside the command.
func (c *process) control(ctx context.Context, op, script string, args ...string) error {
	select {
	case <-c.done:
		return core.Errorf(core.KindConflict, "modal."+op, c.id, "the command has ended")
	default:
	}
	var complaints limitedBuffer
	code, err := c.provider.run(ctx, c.router.sandbox, core.ExecSpec{
		Command: append([]string{"sh", "-c", script, "sh", c.id}, args...), Stderr: &complaints,
	})
	switch {
	case err != nil:
		return err
	case code == 127:
		return core.Errorf(core.KindUnsupported, "modal."+op, c.id, "the image has no shell, which Modal needs for this")
	case code == 3:
		if running, err := c.provider.execRuns(ctx, c.router.sandbox, c.id); err == nil && running {
			return core.Errorf(core.KindUnsupported, "modal."+
				op, c.id, "no process of the command was found: Modal has no call for signals, and sb finds only commands that "+
				"it started").
				WithHint("sb terminate %s ends the sandbox with all its commands", c.router.sandbox)
		}
		return core.Errorf(core.KindConflict, "modal."+op, c.id, "the command has ended")
	case code != 0:
		return core.Errorf(core.KindInternal, "modal."+op, c.id, "exit code %d: %s", code, complaints.text)
	}
	return nil
}

// run runs a command to its end.
func (p *Provider) run(ctx context.Context, id string, spec core.ExecSpec) (int, error) {
	process, err := p.Exec(ctx, id, spec)
	if err != nil {
		return 0, err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	return exit.Code, err
}

// limitedBuffer keeps the first 64 KiB of its input.
type limitedBuffer struct{ text []byte }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := 64<<10 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
