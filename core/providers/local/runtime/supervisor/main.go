//go:build linux

package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
)

// Main runs the program and returns its exit code. "supervise" reads a socket.Launch from stdin. It writes
// socket.LaunchStatus lines to stdout until the sandbox is ready, and runs the sandbox until its end. A spare writes
// them to the client that claims it. Descriptor 3 is the sandbox's lock, which is held while it is open. stderr is the
// log.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	if len(args) == 1 && args[0] == "version" {
		_, _ = fmt.Fprintf(stdout, "%d\n", wire.Version)
		return 0
	}
	if len(args) != 1 || args[0] != "supervise" {
		_, _ = io.WriteString(stderr, "sb starts sb-runtime; it cannot be started by hand\n")
		return 2
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	var client io.WriteCloser = stdout
	report := func(s socket.LaunchStatus) {
		// A disconnected client does not matter: the lease names the sandbox's owner.
		_ = json.NewEncoder(client).Encode(s)
	}
	var launch socket.Launch
	requests := json.NewDecoder(stdin)
	if err := requests.Decode(&launch); err != nil {
		report(socket.LaunchStatus{Error: guest.Fail(fmt.Errorf("reading the launch request: %w", err))})
		return 1
	}
	defer func() { _ = stdin.Close() }()
	if launch.Version != wire.Version {
		report(socket.LaunchStatus{Error: guest.Fail(core.Errorf(
			core.KindUnavailable, "local.launch", "", "sb speaks protocol %d, sb-runtime %d", launch.Version, wire.Version,
		).
			WithHint("install both from one version: CGO_ENABLED=0 go install ./cmd/..."))})
		return 1
	}
	unix.Umask(0o022) // files for the sandbox have fixed modes for every user
	// The streams that gVisor gives to the sandbox must not be the client's.
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	s := newSupervisor(launch, log)
	if launch.Image != "" {
		s.kept = func() (kept wire.Kept, err error) { return kept, requests.Decode(&kept) }
	}
	if launch.Spare != nil {
		_, _ = stdin.Close(), stdout.Close()
		letOthersGoFirst(ctx)
	}
	err := s.prepare(ctx, report)
	if err == nil && launch.Spare != nil {
		client, err = s.awaitClaim(ctx)
	}
	if err != nil && launch.Spare != nil {
		log.Info("the spare ends", "reason", err)
		s.discard(launch.Spare)
		return 0
	}
	if err == nil {
		err = s.activate(ctx)
	}
	if err != nil {
		log.Error("the sandbox could not be started", "error", err)
		s.abandon(err)
		report(socket.LaunchStatus{Error: guest.Fail(err)})
		return 1
	}
	report(socket.LaunchStatus{Ready: true})
	_ = client.Close()
	_ = stdin.Close()
	s.leaveGroup()
	s.keep(ctx)
	return 0
}
