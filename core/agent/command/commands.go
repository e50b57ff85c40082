//go:build linux

package command

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/pipes"
	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// exitFailed is the code of a command that could not start for a reason other than its program.
	exitFailed        = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Config describes the journal of a sandbox.
type Config struct {
	// Sandbox is the sandbox's id.
	Sandbox string
	// Journal has the entries of the commands, and their output beside them.
	Journal journal.Entries
	// LogLimit bounds the output that is kept of a command, and EntryLogLimit that of the entry command, in bytes.
	LogLimit, EntryLogLimit int64
}

// Commands are the commands of one sandbox. It is safe for concurrent use.
type Commands struct {
	host   Host
	config Config
	// Secrets has all secrets of the sandbox and its commands. The journal keeps none of their values.
	Secrets journal.Secrets
	wg      sync.WaitGroup

	mu      sync.Mutex
	running map[string]*Command
	last    int // the newest command's number
}

// New returns the commands of a sandbox. Open comes before the first command.
func New(host Host, config Config) *Commands {
	return &Commands{host: host, config: config, running: map[string]*Command{}}
}

// Open makes the journal or continues its numbers. A command that ran when the sandbox was killed has no exit; the
// recorded end is now.
func (s *Commands) Open() error {
	if err := os.MkdirAll(s.config.Journal.Dir, 0o700); err != nil {
		return err
	}
	execs, err := s.config.Journal.All()
	if err != nil {
		return err
	}
	for _, e := range execs {
		if e.Damaged() && s.config.Journal.Key != nil {
			continue // root in the sandbox may have chosen its number
		}
		if n, err := strconv.Atoi(e.ID); err == nil {
			s.Continue(n)
		}
		if e.Running() {
			e.Ended = time.Now()
			if err := s.config.Journal.Write(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Continue makes the next command's number higher than last.
func (s *Commands) Continue(last int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, last)
}

// Last returns the newest command's number.
func (s *Commands) Last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Get returns a command that runs, or nil.
func (s *Commands) Get(id string) *Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// Running returns the commands that run, in no order.
func (s *Commands) Running() []*Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

// Wait waits until all commands have ended, and all processes that hold their outputs open.
func (s *Commands) Wait() { s.wg.Wait() }

// Run starts a command. client may be nil. A program that cannot run is a command that has ended.
func (s *Commands) Run(request *wire.Command, client *Client) (*Command, error) {
	return s.run(request, "", client)
}

// RunEntry starts the entry command. A program that cannot run is an error.
func (s *Commands) RunEntry(request *wire.Command) (*Command, error) {
	c, err := s.run(request, journal.EntryID, nil)
	if err != nil || c.process != nil {
		return c, err
	}
	kind := core.KindNotFound
	if c.exec.Exit.Code == exitNotExecutable {
		kind = core.KindUnauthorized
	}
	return nil, core.Errorf(kind, "launch", "", "%s", c.exec.Exit.Message).
		WithHint("the entry command must be in the sandbox's PATH; to name the sandbox, use --name")
}

func (s *Commands) run(request *wire.Command, id string, client *Client) (*Command, error) {
	if err := s.host.Acquire(); err != nil {
		client.close()
		return nil, err
	}
	c, err := s.start(request, id, client)
	if err != nil || c.process == nil {
		client.close()
		s.host.Release()
	}
	return c, err
}

// start is run after the sandbox was acquired.
func (s *Commands) start(request *wire.Command, id string, client *Client) (c *Command, err error) {
	plan, err := s.host.Plan(request)
	if err != nil {
		return nil, err
	}
	plan.Kept = !request.TTY && !request.Stdin && (request.Detach || id == journal.EntryID)
	if plan.Terminal = request.TTY; plan.Terminal {
		plan.Argv = guest.PTYArgv(request.Size, request.Argv)
		if _, set := request.Env["TERM"]; !set {
			plan.Env = append(plan.Env, "TERM=xterm-256color")
		}
	}
	c = s.command(core.Exec{
		ID: s.number(id), Command: request.Argv, User: request.User, Workdir: plan.Dir, TTY: request.TTY,
		Detach: request.Detach, Actor: request.Actor, Started: time.Now(),
	}, plan.Kept)
	plan.ID = c.exec.ID
	if err := c.open(request.Secrets); err != nil {
		return nil, failed(err)
	}
	err = c.begin(client, func(files []*os.File) (Process, error) {
		plan.Files = files
		return s.host.Start(plan)
	})
	if code, why := shellCode(err); code != 0 {
		client.started(c.exec.ID)
		c.conclude(core.Exit{Code: code, Message: request.Argv[0] + ": " + why.Error()})
		return c, nil
	}
	if err != nil {
		c.conclude(core.Exit{Code: exitFailed, Message: err.Error()})
		return nil, err
	}
	if !request.Stdin {
		c.CloseStdin()
	}
	s.follow(c, client, request.Timeout)
	return c, nil
}

// Adopt journals a command that continues from the sandbox's original, and follows it. attach returns its process and
// connects it to new outputs. If it returns core.KindNotFound, the command has ended. left is the rest of the timeout;
// 0 means no timeout.
func (s *Commands) Adopt(
	exec core.Exec, left time.Duration, attach func(stdout, stderr *os.File) (Process, error),
) (*Command, error) {
	if err := s.host.Acquire(); err != nil {
		return nil, err
	}
	exec.StdoutBytes, exec.StderrBytes, exec.Truncated = 0, 0, false
	c := s.command(exec, true)
	err := c.open(nil)
	if err == nil {
		err = c.begin(nil, func(files []*os.File) (Process, error) { return attach(files[1], files[2]) })
		switch {
		case err == nil:
			s.follow(c, nil, left)
			return c, nil
		case errors.Is(err, core.KindNotFound):
			c.conclude(core.Exit{Code: 137, Signal: 9, Message: "it ended while the sandbox was copied"})
			err = nil
		default:
			err = errors.Join(err, c.output.Close())
		}
	}
	s.host.Release()
	return c, err
}

func (s *Commands) command(exec core.Exec, kept bool) *Command {
	exec.Sandbox = s.config.Sandbox
	return &Command{s: s, exec: exec, kept: kept, done: make(chan struct{})}
}

// begin makes the command's pipes and starts its process on them.
func (c *Command) begin(client *Client, start func(files []*os.File) (Process, error)) (err error) {
	var ends pipes.Set
	defer func() {
		ends.CloseTheirs()
		if err != nil {
			ends.CloseOurs()
			c.stdin, c.control = nil, nil
		}
	}()
	files := []*os.File{nil}
	if !c.kept {
		c.stdin, files = ends.Input(), nil
	}
	stdout, stderr := ends.Output(), ends.Output()
	if c.exec.TTY {
		c.control = ends.Input()
	}
	if err := ends.Err(); err != nil {
		return failed(err)
	}
	if c.process, err = start(append(files, ends.Theirs()...)); err != nil {
		c.process = nil // not a nil pointer of the host's
		return err
	}
	c.pumps = []*pump{newPump(core.Stdout, stdout, c.output, client)}
	if c.exec.TTY {
		c.report = stderr
		if to := client.to(core.Stderr); to != nil {
			_ = to.Close()
		}
	} else {
		c.pumps = append(c.pumps, newPump(core.Stderr, stderr, c.output, client))
	}
	return nil
}

// follow sends Started to the client, carries the command's output and waits for its end.
func (s *Commands) follow(c *Command, client *Client, timeout time.Duration) {
	if timeout > 0 {
		c.limit = time.Now().Add(timeout)
	}
	s.mu.Lock()
	s.running[c.exec.ID] = c
	s.mu.Unlock()
	client.started(c.exec.ID)
	var carried sync.WaitGroup
	for _, p := range c.pumps {
		carried.Go(p.carry)
	}
	s.wg.Go(func() {
		carried.Wait()
		_ = c.output.Close()
	})
	s.wg.Go(func() { c.attend(timeout) })
}

// number returns id, or reserves the next command's number if id is empty.
func (s *Commands) number(id string) string {
	if id != "" {
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return strconv.Itoa(s.last)
}

// shellCode returns the exit code with which a shell reports a program that cannot run; 0 for another failure.
func shellCode(err error) (code int, why error) {
	switch {
	case errors.Is(err, program.ErrNotFound):
		return exitNotFound, program.ErrNotFound
	case errors.Is(err, program.ErrNotExecutable):
		return exitNotExecutable, program.ErrNotExecutable
	}
	return 0, nil
}

// failed returns the failure to start a command as a *core.Error.
func failed(err error) error {
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	kind, hint := guest.KindOf(err), ""
	switch {
	case errors.Is(err, unix.EMFILE):
		hint = "raise the limit of open files: ulimit -n 1024"
	case errors.Is(err, unix.EAGAIN):
		kind = core.KindExhausted
	}
	if kind == core.KindExhausted && hint == "" {
		hint = "free disk space, memory or processes on this machine"
	}
	return core.Errorf(kind, "exec", "", "the command could not be started: %w", err).WithHint("%s", hint)
}
