package service

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// Start starts a command in a sandbox. ctx bounds the start only: to end a command
// call Signal. The caller closes the Process.
func (s Execs) Start(ctx context.Context, ref string, spec core.ExecSpec) (process core.Process, err error) {
	args := execArgs(spec)
	err = s.act(ctx, "exec", ref, args, func(sb core.Sandbox, p core.Provider) error {
		if err := spec.Validate(); err != nil {
			return err
		}
		if spec.TTY && !p.Capabilities().Can(core.CapTTY) {
			return s.unsupported(sb.Provider, "exec", "--tty", core.CapTTY)
		}
		if spec.User != "" && !p.Capabilities().Can(core.CapUser) {
			return s.unsupported(sb.Provider, "exec", "--user", core.CapUser)
		}
		if slices.ContainsFunc(spec.Secrets, core.Secret.Kept) && !p.Capabilities().Can(core.CapSecretStore) {
			return s.unsupported(sb.Provider, "exec", "--secret-ref", core.CapSecretStore)
		}
		process, err = p.Exec(ctx, sb.ID, spec)
		if err == nil {
			args["exec"] = process.ID()
			s.broker.publish(core.Event{
				Time: s.now(), Type: core.EventExec, Provider: sb.Provider, Sandbox: sb.ID, Name: sb.Name, Actor: s.owner.Actor,
				Exec: &core.Exec{
					ID: process.ID(), Sandbox: sb.ID, Command: spec.Command, TTY: spec.TTY, Detach: spec.Detach, Started: s.now(),
				},
			})
		}
		return err
	})
	return process, err
}

// execArgs returns the audit log's arguments of a command, without the values of variables.
func execArgs(spec core.ExecSpec) map[string]any {
	args := map[string]any{"command": spec.Command}
	if spec.Workdir != "" {
		args["workdir"] = spec.Workdir
	}
	if spec.User != "" {
		args["user"] = spec.User
	}
	if spec.TTY {
		args["tty"] = true
	}
	if spec.Detach {
		args["detach"] = true
	}
	if len(spec.Env) > 0 {
		args["env"] = slices.Sorted(maps.Keys(spec.Env))
	}
	for _, secret := range spec.Secrets {
		names, _ := args["secrets"].([]string)
		args["secrets"] = append(names, secret.Name)
	}
	return args
}

// List returns a sandbox's journal of commands, oldest first. For a provider without a journal it returns the newest
// commands in this user's audit log. These have no end times and omit the entry command.
func (s Execs) List(ctx context.Context, ref string) ([]core.Exec, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	if finder, err := capable[core.ExecFinder](s.base, sb.Provider, "ps"); err == nil && s.audit != nil {
		execs, err := s.recorded(ctx, sb, finder)
		return execs, about("ps", ref, sb, err)
	}
	journal, err := capable[core.Journaler](s.base, sb.Provider, "ps")
	if err != nil {
		return nil, err
	}
	execs, err := journal.Execs(ctx, sb.ID)
	return execs, about("ps", ref, sb, err)
}

// Find returns one entry of a sandbox's journal.
func (s Execs) Find(ctx context.Context, ref, exec string) (core.Exec, error) {
	execs, err := s.List(ctx, ref)
	if err != nil {
		return core.Exec{}, err
	}
	for _, e := range execs {
		if e.ID == exec {
			return e, nil
		}
	}
	return core.Exec{}, noExec(ref, exec)
}

func noExec(ref, exec string) error {
	return core.Errorf(core.KindNotFound, "exec", exec, "sandbox %s has no command %q", ref, exec).
		WithHint("sb ps %s lists them", ref)
}

// Attach connects streams to a running command, or replays one that has ended. The caller closes the Process.
// KindNotFound: the sandbox has no such command.
func (s Execs) Attach(ctx context.Context, ref, exec string, streams core.Streams) (core.Process, error) {
	if exec == "" {
		return nil, core.Errorf(core.KindUsage, "attach", ref, "the id of a command is empty").
			WithHint("sb ps %s lists the commands", ref)
	}
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.attach(ctx, ref, sb, exec, streams)
}

// attach is Attach for the sandbox that ref is resolved to.
func (s *base) attach(
	ctx context.Context, ref string, sb core.Sandbox, exec string, streams core.Streams,
) (core.Process, error) {
	attacher, err := capable[core.Attacher](s, sb.Provider, "attach")
	if err != nil {
		return nil, err
	}
	process, err := attacher.Attach(ctx, sb.ID, exec, streams)
	return process, aboutExec("attach", ref, sb, exec, err)
}

// aboutExec is about, and names the sandbox of a command that was not found.
func aboutExec(op, ref string, sb core.Sandbox, exec string, err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if ok && e.Kind == core.KindNotFound && e.Subject == exec && e.Hint == "" {
		return noExec(shown(ref, sb), exec)
	}
	return about(op, ref, sb, err)
}

// Kill sends a signal to a command's process group. It ends commands only, never a sandbox.
// KindNotFound: the sandbox has no such command; KindConflict: the command has ended.
func (s Execs) Kill(ctx context.Context, ref, exec string, signal int) error {
	if signal < 1 || signal > 64 {
		return core.Invalid("signal", "%d is not between 1 and 64", signal)
	}
	return s.act(ctx, "kill", ref, map[string]any{"exec": exec, "signal": signal}, func(
		sb core.Sandbox, _ core.Provider,
	) error {
		process, err := s.attach(ctx, ref, sb, exec, core.Streams{})
		if err != nil {
			return err
		}
		defer func() { _ = process.Close() }()
		return process.Signal(ctx, signal)
	})
}

// Wait blocks until a command ended and returns how.
func (s Execs) Wait(ctx context.Context, ref, exec string) (core.Exit, error) {
	process, err := s.Attach(ctx, ref, exec, core.Streams{})
	if err != nil {
		return core.Exit{}, err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	return exit, core.Wrap("wait", ref, err)
}

// Logs yields the output of the entry command, or of the command opts.Exec, oldest first. At most one error comes last.
func (s Execs) Logs(ctx context.Context, ref string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		sb, _, err := s.resolve(ctx, ref)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		reader, err := capable[core.LogReader](s.base, sb.Provider, "logs")
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		for record, err := range reader.Logs(ctx, sb.ID, opts) {
			if !yield(record, aboutExec("logs", ref, sb, opts.Exec, err)) || err != nil {
				return
			}
		}
	}
}
