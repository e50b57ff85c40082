package cli

import (
	"context"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Result turns a command's end into this program's: the guest's code, 124 for a time limit, 125 for sb's own failures.
func (a *App) Result(ctx context.Context, svc *service.Service, sandbox string, exit core.Exit, err error) error {
	if err != nil {
		// A provider that did not answer is not called again, because it may hang.
		if !service.Unresolved(err) && a.outlived(ctx, svc, sandbox) {
			return &ExitError{
				Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime expired"),
			}
		}
		return OwnFailure(err)
	}
	switch {
	case exit.TimedOut:
		return &ExitError{
			Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the command's timeout expired"),
		}
	case exit.Reason == core.ReasonTimeout:
		return &ExitError{
			Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime expired"),
		}
	case exit.Message != "" && exit.Code != ExitOK:
		return &ExitError{Code: exit.Code, Err: core.Errorf(reasonKind(exit.Reason), "exec", sandbox, "%s", exit.Message)}
	}
	return PassThrough(exit.Code)
}

// EndOf turns a sandbox's end into this program's. The reason decides, because a killed entry command has a code, too.
func EndOf(box core.Sandbox) error {
	kind := reasonKind(box.Reason)
	switch box.Reason {
	case core.ReasonTimeout, core.ReasonIdle:
		return &ExitError{Code: ExitTimeout, Err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonMemory, core.ReasonLeaseEnded:
		return &ExitError{Code: exitKilled, Err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonStopped:
		if box.State != core.StateStopped {
			return &ExitError{Code: exitKilled, Err: core.Errorf(kind, "wait", box.Name, "the sandbox was terminated")}
		}
	case core.ReasonCommand, core.ReasonDisk, core.ReasonLaunch, core.ReasonCrash, core.ReasonSupervisor,
		core.ReasonReboot:
	}
	switch {
	case box.State == core.StateFailed || box.State == core.StateLost:
		return core.Errorf(kind, "wait", box.Name, "the sandbox is %s: %s", StateText(box), box.Message)
	case box.ExitCode != nil:
		return PassThrough(*box.ExitCode)
	}
	return nil
}

// reasonKind is the kind of the error for a reason.
func reasonKind(reason core.Reason) core.Kind {
	switch reason {
	case core.ReasonTimeout, core.ReasonIdle:
		return core.KindTimeout
	case core.ReasonMemory, core.ReasonDisk:
		return core.KindExhausted
	case core.ReasonCommand, core.ReasonStopped, core.ReasonLeaseEnded:
		return core.KindConflict
	case core.ReasonLaunch, core.ReasonCrash, core.ReasonSupervisor, core.ReasonReboot:
	}
	return core.KindUnavailable
}

// outlived reports whether a sandbox ended because its lifetime expired.
func (a *App) outlived(ctx context.Context, svc *service.Service, sandbox string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
	defer cancel()
	box, err := svc.Sandboxes.Resolve(ctx, sandbox)
	return err == nil && box.Reason == core.ReasonTimeout
}
