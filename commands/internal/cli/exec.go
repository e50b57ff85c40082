package cli

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Execute runs a command on this program's streams until it ended.
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

// ExecReport is the JSON of a command that ended.
type ExecReport struct {
	Exec            string      `json:"exec"`
	Stdout          string      `json:"stdout"`
	StdoutEncoding  string      `json:"stdout_encoding"`
	StdoutBytes     int64       `json:"stdout_bytes"`
	StdoutTruncated bool        `json:"stdout_truncated"`
	Stderr          string      `json:"stderr"`
	StderrEncoding  string      `json:"stderr_encoding"`
	StderrBytes     int64       `json:"stderr_bytes"`
	StderrTruncated bool        `json:"stderr_truncated"`
	ExitCode        int         `json:"exit_code"`
	Signal          int         `json:"signal,omitempty"`
	TimedOut        bool        `json:"timed_out"`
	Reason          core.Reason `json:"reason,omitempty"`
	Message         string      `json:"message,omitempty"`
	// Duration is in nanoseconds, as in core.Exit.
	Duration time.Duration `json:"duration_ns"`
}
