//go:build linux

package supervisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
)

// makeWorkdir makes the spec's directory for commands if the sandbox lacks it, as container engines do. It belongs to
// root. No other process runs in the sandbox yet.
func (s *Supervisor) makeWorkdir(ctx context.Context) error {
	if s.launch.Spec.Workdir == "" {
		return nil
	}
	dir := path.Clean(s.launch.Spec.Workdir)
	argv, err := guest.Request{Op: guest.OpMkdir, Path: []byte(dir), Parents: true}.Argv()
	if err != nil {
		return err
	}
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return classify(err)
	}
	defer func() { _ = nothing.Close() }()
	report, theirs, err := os.Pipe()
	if err != nil {
		return classify(err)
	}
	defer func() { _ = report.Close() }()
	process, err := s.box.Exec(ctx, engine.Command{
		Argv: argv, Env: s.environment("/root", nil), Dir: "/", Files: []*os.File{nothing, nothing, theirs},
		Program: s.box.Guest(), Hidden: true,
	})
	_ = theirs.Close()
	if err != nil {
		return classify(err)
	}
	text, readErr := io.ReadAll(io.LimitReader(report, guest.MaxReport))
	exit, err := process.Wait()
	if err := errors.Join(readErr, err); err != nil {
		return classify(err)
	}
	answer, err := guest.DecodeReport(text)
	if err == nil {
		err = answer.Err("local.launch")
	}
	if err == nil && exit.Code != 0 {
		err = core.Errorf(core.KindInternal, "local.launch", dir, "sb-guest ended with code %d", exit.Code)
	}
	if err != nil {
		return core.Errorf(core.KindOf(err), "local.launch", "", "the directory for commands cannot be made: %w", err)
	}
	return nil
}
