package fake

import (
	"context"
	"iter"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Exec implements core.Provider.
func (p *Provider) Exec(ctx context.Context, id string, spec core.ExecSpec) (core.Process, error) {
	if err := p.faults.meet(ctx, OpExec); err != nil {
		return nil, err
	}
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	if err := b.ready(); err != nil {
		return nil, err
	}
	proc, err := b.start("", spec)
	if err != nil {
		return nil, err
	}
	if proc.origin != nil {
		return proc.origin, nil
	}
	return proc.newClient(core.Streams{}, false), nil
}

// Execs implements core.Journaler.
func (p *Provider) Execs(ctx context.Context, id string) ([]core.Exec, error) {
	if err := p.faults.meet(ctx, OpExecs); err != nil {
		return nil, err
	}
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	return b.execs(), nil
}

// Attach implements core.Attacher.
func (p *Provider) Attach(ctx context.Context, id, exec string, streams core.Streams) (core.Process, error) {
	if err := p.faults.meet(ctx, OpAttach); err != nil {
		return nil, err
	}
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	proc, err := b.process(exec)
	if err != nil {
		return nil, err
	}
	return proc.newClient(streams, false), nil
}

// Logs implements core.LogReader.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if err := p.faults.meet(ctx, OpLogs); err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		b, err := p.box(id)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		exec := opts.Exec
		if exec == "" {
			if exec = "0"; len(b.get().Spec.Command) == 0 {
				return // no entry command, no log
			}
		}
		proc, err := b.process(exec)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		proc.journal.read(ctx, opts, yield)
	}
}

// entry returns the command's journal entry.
func (proc *process) entry() core.Exec {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	stdout, stderr, truncated := proc.journal.counts()
	exec := core.Exec{
		ID: proc.id, Sandbox: proc.box.sandbox.ID, Command: proc.spec.Command, User: proc.spec.User, Workdir: proc.dir,
		TTY:    proc.spec.TTY,
		Detach: proc.spec.Detach, Started: proc.started, StdoutBytes: stdout, StderrBytes: stderr, Truncated: truncated,
	}
	if proc.exit != nil {
		exit := *proc.exit
		exec.Exit, exec.Ended = &exit, proc.started.Add(exit.Duration)
	}
	return exec
}

// graceAfterTimeout bounds the time that a command which catches SIGTERM may run after its time limit.
const graceAfterTimeout = 2 * time.Second
