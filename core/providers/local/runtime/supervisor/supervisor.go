//go:build linux

package supervisor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/netstack"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Supervisor runs one sandbox.
type Supervisor struct {
	launch socket.Launch
	log    *slog.Logger
	box    *engine.Box
	stack  *netstack.Stack
	server *grpc.Server
	socket net.Listener
	group  *cgroup.Member // the sandbox's control group; nil without one
	users  command.Users
	// kept reads the data that belongs to an image; nil without one.
	kept func() (wire.Kept, error)
	// resumed is the result of kept.
	resumed wire.Kept
	// helpers has a unit for each sb-guest that runs by descriptor. A checkpoint takes all units.
	helpers *semaphore.Weighted
	// ending receives the first reason to end.
	ending chan end
	// changed wakes keep after a deadline moved.
	changed  chan struct{}
	wg       sync.WaitGroup
	commands *command.Commands

	// stopping is held by stop. The entry command's end waits for it, because during a stop that end is not the reason for
	// the sandbox's end. It is taken before mu.
	stopping sync.Mutex
	// policing is held while the network policy is replaced. It is taken before mu.
	policing sync.Mutex
	// keeping is held while the sandbox or its filesystem is written out. It is taken after mu.
	keeping sync.Mutex

	mu       sync.Mutex
	state    store.State
	busy     int  // active commands, file operations and connections
	forwards int  // connections to ports that sb-guest carries
	frozen   bool // suspended because nothing runs
	paused   bool
	over     bool // no request is accepted anymore
	dirty    bool // files may have changed since the last save
	freezeAt time.Time
	saveAt   time.Time
	reportAt time.Time    // time to write refused connections to the state; zero is never
	usage    engine.Usage // the last measurement
	awake    context.CancelFunc
	why      end
}

// end is the final state of the sandbox and the reason for its end.
type end struct {
	state   core.State
	reason  core.Reason
	message string
}

func newSupervisor(launch socket.Launch, log *slog.Logger) *Supervisor {
	started, _ := core.ProcessStart(os.Getpid())
	s := &Supervisor{
		launch: launch, log: log, helpers: semaphore.NewWeighted(maxHelpers), ending: make(chan end, 1),
		changed: make(chan struct{}, 1),
		state: store.State{
			State: core.StateCreating, BootID: core.BootID(), PID: os.Getpid(), PIDStart: started, Saved: launch.Restore,
			Note: launch.Note,
		},
	}
	s.commands = command.New(host{s}, command.Config{
		Sandbox: launch.ID, Journal: journal.Entries{Dir: s.journalDir()},
		LogLimit: logLimit, EntryLogLimit: cmp.Or(launch.LogLimit, logLimit),
	})
	return s
}

// prepare builds the sandbox's kernel and file server. It uses only the parts of the launch that a claim does not
// change. If prepare or activate fails, abandon removes the parts.
func (s *Supervisor) prepare(ctx context.Context, report func(socket.LaunchStatus)) error {
	report(socket.LaunchStatus{Step: "starting the sandbox"})
	s.openGroup()
	if err := s.makeDirs(); err != nil {
		return err
	}
	if err := s.commands.Open(); err != nil {
		return classify(err)
	}
	if err := s.save(false); err != nil {
		return err
	}
	config := s.config()
	if s.kept != nil {
		config.Image = func(context.Context) (dir string, err error) {
			s.resumed, err = s.awaitImage()
			return s.launch.Image, err
		}
	}
	var err error
	if config.Network, err = s.connect(s.launch.Spec.Network); err != nil {
		return err
	}
	defer func() { _ = config.Network.NIC.Close() }()
	if s.box, err = engine.Start(ctx, config); err != nil {
		return classify(err)
	}
	s.users, err = s.readUsers()
	return err
}

// activate starts the sandbox's commands and serves clients.
func (s *Supervisor) activate(ctx context.Context) error {
	if err := s.publish(ctx); err != nil {
		return err
	}
	var err error
	if s.socket, err = socket.Listen(filepath.Join(s.launch.RuntimeDir, store.SocketName)); err != nil {
		return err
	}
	if err := s.confine(); err != nil {
		return classify(err)
	}
	s.begins(time.Now())
	s.wakeUp()
	s.commands.Secrets.Add(s.launch.Secrets)
	if s.kept != nil {
		err = s.rejoin(s.resumed)
	} else if err = s.makeWorkdir(ctx); err == nil {
		err = s.startEntry()
	}
	if err != nil {
		return err
	}
	if err := s.save(true); err != nil {
		return err
	}
	s.server = socket.NewServer()
	socket.Register(s.server, s)
	s.wg.Go(func() { _ = s.server.Serve(s.socket) })
	return nil
}

// confine drops rights that are not needed while the sandbox runs.
func (s *Supervisor) confine() error {
	// The files behind the writable layer are unlinked already.
	if err := os.RemoveAll(s.launch.OverlayDir); err != nil {
		return err
	}
	dirs := []string{s.launch.Dir}
	if state := s.box.StateDir(); !strings.HasPrefix(state, s.launch.Dir+"/") {
		dirs = append(dirs, state)
	}
	root := filepath.Join(s.launch.RuntimeDir, "jail")
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	peers := s.box.Processes()
	if owner := s.launch.Lease.Owner; owner.PID > 0 && !owner.Gone() {
		peers = append(peers, owner.PID)
	}
	return confine(root, dirs, peers...)
}

// makeDirs makes the sandbox's directories. It removes the leftovers of a killed supervisor, which the lock proves to
// be gone.
func (s *Supervisor) makeDirs() error {
	if err := errors.Join(os.RemoveAll(s.launch.RuntimeDir), os.RemoveAll(s.launch.OverlayDir)); err != nil {
		return classify(err)
	}
	if s.launch.Image == "" {
		if err := s.removeImage(); err != nil {
			return classify(err)
		}
	}
	for _, dir := range []string{s.launch.RuntimeDir, s.launch.OverlayDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// config returns the engine's configuration, without the network and the image to resume from.
func (s *Supervisor) config() engine.Config {
	spec := s.launch.Spec
	config := engine.Config{
		ID: s.launch.ID, Dir: s.launch.RuntimeDir, OverlayDir: s.launch.OverlayDir, Guest: s.launch.Guest,
		Hostname: hostname(spec.Name),
		Env:      s.environment("/root"),
		Limits: engine.Limits{
			CPU: spec.CPU, Memory: int64(spec.Memory), Disk: int64(spec.Disk), Processes: spec.Processes,
			OpenFiles: spec.OpenFiles,
		},
		Restore: s.launch.Files,
	}
	if s.launch.Root != nil {
		config.RootImage = s.launch.Root.Path
		for _, f := range s.launch.Root.Files {
			config.Files = append(config.Files, engine.File{Path: f.Path, Content: f.Content, Mode: os.FileMode(f.Mode & 0o777)})
		}
	}
	config.Volumes = s.volumes()
	if s.launch.Restore > 0 {
		config.Restore = store.SavesIn(s.launch.Dir).Dir(s.launch.Restore)
	}
	return config
}

// publish listens for the ports of the spec.
func (s *Supervisor) publish(ctx context.Context) error {
	for _, port := range s.launch.Spec.Ports {
		address, err := s.stack.Publish(ctx, port.Host, port.Sandbox, s.dial)
		if err != nil {
			return err
		}
		s.state.Ports = append(s.state.Ports, core.PortMapping{Sandbox: port.Sandbox, Address: address})
	}
	return nil
}

// begins sets the state to running, and the times that start now.
func (s *Supervisor) begins(now time.Time) {
	s.state.Ended, s.state.Fixed = time.Time{}, s.launch.Endless
	s.state.State, s.state.Started, s.state.LastActive = core.StateRunning, now, now
	if timeout := s.launch.Spec.Timeout; timeout > 0 && !s.launch.Endless {
		s.state.Expires = now.Add(time.Duration(timeout))
	}
	s.freezeAt, s.saveAt = now.Add(s.launch.FreezeAfter), now.Add(s.launch.SaveInterval)
	if s.kept != nil || s.launch.Files != "" {
		s.dirty, s.saveAt = true, now // a start after a crash needs a saved copy of the initial files
	}
}

// finish makes keep end the sandbox. The first reason wins.
func (s *Supervisor) finish(why end) {
	select {
	case s.ending <- why:
	default:
	}
}

// save writes state.json. The caller does not hold mu.
func (s *Supervisor) save(durable bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveLocked(durable)
}

func (s *Supervisor) saveLocked(durable bool) error {
	return store.WriteState(s.launch.Dir, s.state, durable)
}

// abandon cleans up after a failed start. The client removes the rest.
func (s *Supervisor) abandon(cause error) {
	s.why = end{core.StateFailed, core.ReasonLaunch, cause.Error()}
	if s.launch.Restore > 0 {
		s.why.state = core.StateStopped // its files are saved, and it can be started again
	}
	s.teardown()
}

// teardown ends all processes inside and the work of this process. It records the end in state.json.
func (s *Supervisor) teardown() {
	s.mu.Lock()
	s.over = true
	s.stopWatching()
	// The reason is written first, because clients of the ending commands read it.
	s.conclude()
	s.mu.Unlock()
	clean := s.box != nil // else the engine has cleaned up already
	if s.box != nil {
		if err := s.box.Stop(); err != nil {
			s.log.Error("the sandbox did not stop cleanly", "error", err)
			clean = false
		}
	}
	if s.server != nil {
		// All commands have ended with the sandbox, so their calls are ending, too.
		stopped := make(chan struct{})
		go func() { s.server.GracefulStop(); close(stopped) }()
		select {
		case <-stopped:
		case <-time.After(2 * time.Second):
			s.server.Stop()
			<-stopped
		}
	} else if s.socket != nil {
		_ = s.socket.Close()
	}
	if s.stack != nil {
		_ = s.stack.Close()
	}
	s.commands.Wait()
	s.wg.Wait()
	_ = s.group.Close()
	s.mu.Lock()
	s.conclude() // with the entry command's code
	s.mu.Unlock()
	_ = os.RemoveAll(s.launch.OverlayDir)
	if clean {
		// While this directory exists, clients look for processes of the sandbox.
		_ = os.RemoveAll(s.launch.RuntimeDir)
	}
}

// conclude writes the final state. The caller holds mu.
func (s *Supervisor) conclude() {
	s.state.State, s.state.Reason, s.state.Message = s.why.state, s.why.reason, s.why.message
	s.state.Frozen, s.state.Ports = false, nil
	if s.state.Ended.IsZero() {
		s.state.Ended = time.Now()
	}
	if err := s.saveLocked(true); err != nil {
		s.log.Error("the last state could not be written", "error", err)
	}
}

func (s *Supervisor) journalDir() string { return filepath.Join(s.launch.Dir, store.JournalDir) }

// hostname returns the sandbox's host name.
func hostname(name string) string {
	if name == "" {
		return "sandbox"
	}
	return name
}
