package fake

import (
	"context"
	"sync"
	"time"
)

// Op names an operation that a Fault can delay or fail.
type Op string

// The operations.
const (
	OpCheck     Op = "check"
	OpLaunch    Op = "launch"
	OpGet       Op = "get"
	OpFind      Op = "find"
	OpList      Op = "list"
	OpExec      Op = "exec"
	OpAttach    Op = "attach"
	OpExecs     Op = "execs"
	OpTerminate Op = "terminate"
	OpStop      Op = "stop"
	OpStart     Op = "start"
	OpPause     Op = "pause"
	OpResume    Op = "resume"
	OpTimeout   Op = "timeout"
	OpStats     Op = "stats"
	OpLogs      Op = "logs"
	OpRead      Op = "read"  // Stat, ReadDir, ReadFile, Export
	OpWrite     Op = "write" // WriteFile, Mkdir, Remove, Import
	OpSweep     Op = "sweep"
	OpFork      Op = "fork"
	OpKeep      Op = "checkpoint" // Checkpoint, Checkpoints, RemoveCheckpoint
	OpDenials   Op = "denials"

	// Of a Keeper.
	OpStore   Op = "store" // volumes, secrets, images, apps, environments
	OpSave    Op = "save"  // Snapshot, Snapshots, RemoveSnapshot, Diff, MountImage, UnmountImage
	OpNetwork Op = "network"
	OpTunnels Op = "tunnels"
	OpDial    Op = "dial"
)

// Fault is a scripted delay and error of an operation.
type Fault struct {
	// Delay passes first, or less if the caller's context ends.
	Delay time.Duration
	// Until, if not nil, is closed when the operation may continue. The end of the caller's context ends the wait, too.
	Until <-chan struct{}
	// Err is the error of the operation; nil lets it continue.
	Err error
	// Times is the number of operations with this fault; 0 means all.
	Times int
}

// Inject adds a fault to an operation, after the faults that were injected before. A Fault without Delay, Until and Err
// removes all faults of the operation.
func (p *Provider) Inject(op Op, fault Fault) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	if p.faults.byOp == nil {
		p.faults.byOp = map[Op][]Fault{}
	}
	if fault.Delay == 0 && fault.Until == nil && fault.Err == nil {
		delete(p.faults.byOp, op)
		return
	}
	p.faults.byOp[op] = append(p.faults.byOp[op], fault)
}

type faults struct {
	mu   sync.Mutex
	byOp map[Op][]Fault
}

// next takes the fault for the current operation.
func (f *faults) next(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := f.byOp[op]
	if len(queue) == 0 {
		return Fault{}
	}
	fault := queue[0]
	if fault.Times > 0 {
		if queue[0].Times--; queue[0].Times == 0 {
			f.byOp[op] = queue[1:]
		}
	}
	return fault
}

// meet delays and fails as scripted.
func (f *faults) meet(ctx context.Context, op Op) error {
	fault := f.next(op)
	if err := sleep(ctx, fault.Delay); err != nil {
		return err
	}
	if fault.Until != nil {
		select {
		case <-fault.Until:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fault.Err
}

// sleep waits until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
