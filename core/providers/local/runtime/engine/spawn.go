//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
)

// maxReports bounds the size of the two reports about a command, because root inside may forge them.
const maxReports = 2 * guest.MaxReport

// seen returns a command line for sb-guest at its path in the sandbox.
func seen(argv []string) []string { return append([]string{GuestPath}, argv[1:]...) }

// spawnPatience is how long the sandbox's first process may take to start a command. The helper waits 10 s for it.
const spawnPatience = 30 * time.Second

// Spawned is a command that is a child of the sandbox's first process.
type Spawned struct {
	box     *Box
	pid     int32
	reports *json.Decoder
	pipe    *os.File
	helper  *Process
}

// Spawn makes the sandbox's first process run a command. With Attach it finds a running command, for instance in a
// sandbox that was resumed from a checkpoint. The command writes to stdout and stderr, the ends of pipes. The caller
// closes its copies. If the command cannot be started, the error is as for Exec.
func (b *Box) Spawn(ctx context.Context, request guest.Spawn, stdout, stderr *os.File) (_ *Spawned, err error) {
	line, err := request.Encode()
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer func() {
		if err != nil {
			_ = from.Close()
		}
	}()
	helper, err := b.Exec(
		ctx,
		Command{
			Argv: seen(guest.SpawnArgv()), Env: []string{}, Dir: "/", Files: []*os.File{in, stdout, stderr, out}, Hidden: true,
		},
	)
	_ = in.Close()
	_ = out.Close()
	if err != nil {
		return nil, fmt.Errorf("the sandbox's %s: %w", GuestPath, err)
	}
	if _, err := to.Write(line); err != nil {
		return nil, err
	}
	_ = to.Close()
	s := &Spawned{box: b, pipe: from, reports: json.NewDecoder(io.LimitReader(from, maxReports)), helper: helper}
	// Root inside may have replaced the first process.
	ctx, cancel := context.WithTimeout(ctx, spawnPatience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) })
	var report guest.SpawnReport
	err = s.reports.Decode(&report)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = helper.Signal(unix.SIGKILL)
		return nil, fmt.Errorf("the sandbox's first process does not answer: %w", err)
	}
	if report.Error != nil {
		return nil, b.whyNotSpawned(ctx, request, report)
	}
	s.pid = int32(report.PID) //nolint:gosec // a process id
	return s, nil
}

func (b *Box) whyNotSpawned(ctx context.Context, request guest.Spawn, report guest.SpawnReport) error {
	err := guest.Report{Error: report.Error}.Err("local.exec")
	if request.Attach || len(request.Argv) == 0 {
		return err
	}
	if err := b.checkDir(ctx, request.Dir); err != nil {
		return err
	}
	switch core.KindOf(err) { //nolint:exhaustive // other errors are not the program's
	case core.KindNotFound:
		return fmt.Errorf("%s: %w", request.Argv[0], program.ErrNotFound)
	case core.KindUnauthorized, core.KindConflict, core.KindUnsupported:
		return fmt.Errorf("%s: %w: %w", request.Argv[0], program.ErrNotExecutable, err)
	}
	return err
}

// Wait blocks until the command has ended. It may be called once. It returns an error if the sandbox ends first.
func (s *Spawned) Wait() (Exit, error) {
	var report guest.SpawnReport
	decodeErr := s.reports.Decode(&report)
	_ = s.pipe.Close()
	if _, err := s.helper.Wait(); err != nil {
		return Exit{}, err
	}
	switch {
	case decodeErr != nil:
		return Exit{}, decodeErr
	case report.Exit == nil:
		return Exit{}, errors.New("sb-guest reported no exit code")
	case report.Exit.Signal != 0:
		return Exit{Signal: syscall.Signal(report.Exit.Signal)}, nil
	}
	return Exit{Code: report.Exit.Code}, nil
}

// Signal sends a signal to the command. It returns no error for a command that has ended.
func (s *Spawned) Signal(signal syscall.Signal) error {
	return s.box.signalProcess(signal, s.pid)
}

// SignalGroup sends a signal to the command's process group.
func (s *Spawned) SignalGroup(signal syscall.Signal) error {
	return s.box.signalGroup(signal, s.pid)
}
