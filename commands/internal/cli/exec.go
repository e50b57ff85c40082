package cli

import (
	"context"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Execute runs a command on this program's streams and waits for its end.
func (a *App) Execute(ctx context.Context, svc *service.Service, sandbox string, spec core.ExecSpec) error {
	if spec.TTY {
		size, restore, err := a.Terminal()
		if err != nil {
			return err
		}
		defer restore()
		spec.Size = size
	}
	process, err := svc.Execs.Start(ctx, sandbox, spec)
	if err != nil {
		return a.Result(ctx, svc, sandbox, core.Exit{}, err)
	}
	defer process.Close()
	exit, err := a.Follow(ctx, process)
	return a.Result(ctx, svc, sandbox, exit, err)
}

// Terminal returns the size for a command's terminal and puts this program's terminal into raw mode, if it has one. The
// caller always calls restore.
func (a *App) Terminal() (size core.TerminalSize, restore func(), err error) {
	size, ok := a.Streams.Size()
	if !ok {
		size = core.TerminalSize{Rows: 24, Cols: 80}
	}
	if !a.Streams.InTTY() {
		return size, func() {}, nil
	}
	undo, err := a.Streams.MakeRaw()
	if err != nil {
		return size, nil, core.Errorf(core.KindInternal, "terminal", "", "the terminal refuses raw mode: %w", err)
	}
	return size, func() { _ = undo() }, nil
}
