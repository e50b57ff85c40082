//go:build linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// claimPatience bounds the time between the claim of a spare's ticket and the client's connection.
const claimPatience = 10 * time.Second

// headStart is how long the preparation of a spare waits for the command of the launch before it.
const headStart = 100 * time.Millisecond

// letOthersGoFirst delays the preparation of a spare, which uses a processor for as long as a launch.
func letOthersGoFirst(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(headStart):
	}
}

// awaitClaim suspends the prepared sandbox until a launch claims it, and then makes it the sandbox of that launch. An
// error is the reason for the spare's end: no launch has claimed it, or the claiming client is gone. The caller closes
// the connection to the client.
func (s *Supervisor) awaitClaim(ctx context.Context) (net.Conn, error) {
	conn, err := s.awaitClient(ctx)
	if err != nil {
		return nil, err
	}
	launch, err := socket.ReadClaim(conn)
	if err == nil {
		err = s.become(ctx, launch)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// awaitClient offers the spare and waits for the client that claims it.
func (s *Supervisor) awaitClient(ctx context.Context) (net.Conn, error) {
	listener, err := socket.Listen(filepath.Join(s.launch.RuntimeDir, socket.ClaimName))
	if err != nil {
		return nil, err
	}
	clients := make(chan net.Conn, 1)
	go func() {
		defer close(clients)
		if conn, err := listener.Accept(); err == nil {
			clients <- conn
		}
	}()
	conn, err := s.offer(ctx, clients)
	_ = listener.Close()
	for late := range clients { // the end of the goroutine
		_ = late.Close()
	}
	return conn, err
}

// offer makes the spare available until it has a client, or is too old.
func (s *Supervisor) offer(ctx context.Context, clients <-chan net.Conn) (net.Conn, error) {
	if err := s.box.Freeze(); err != nil {
		return nil, err
	}
	spares := store.New(s.launch.Spare.State)
	if err := spares.ReadySpare(s.launch.ID); err != nil {
		return nil, err
	}
	timer := time.NewTimer(s.launch.Spare.Age)
	defer timer.Stop()
	for claimed := false; ; {
		select {
		case conn, ok := <-clients:
			if !ok {
				return nil, errors.New("its socket is closed")
			}
			return conn, nil
		case <-s.box.Done():
			return nil, errors.New("its kernel ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			if claimed {
				return nil, errors.New("the client that claimed it is gone")
			}
			var err error
			if claimed, err = spares.WithdrawSpare(s.launch.ID); err != nil || !claimed {
				return nil, errors.Join(errors.New("no launch has claimed it"), err)
			}
			timer.Reset(claimPatience)
		}
	}
}

// become makes the spare the sandbox of a launch. The parts of the launch that were prepared stay as they are.
func (s *Supervisor) become(ctx context.Context, launch socket.Launch) error {
	if err := wire.CheckVersion(launch.Version, wire.Version); err != nil {
		return err
	}
	prepared := s.launch
	if launch.ID != prepared.ID {
		return fmt.Errorf("the claim is for %s", launch.ID)
	}
	launch.Dir, launch.RuntimeDir, launch.OverlayDir = prepared.Dir, prepared.RuntimeDir, prepared.OverlayDir
	launch.Guest, launch.Group, launch.Spare = prepared.Guest, prepared.Group, nil
	s.mu.Lock()
	s.launch = launch
	s.mu.Unlock()
	s.stack.SetPolicy(policy(launch.Spec.Network))
	if err := s.box.CountFromNow(); err != nil {
		return err
	}
	if err := s.box.Thaw(); err != nil {
		return err
	}
	return s.box.Rename(ctx, hostname(launch.Spec.Name))
}

// discard ends a spare and removes it. A client that has claimed it launches another sandbox.
func (s *Supervisor) discard(spare *socket.Spare) {
	spares := store.New(spare.State)
	_, err := spares.WithdrawSpare(s.launch.ID)
	s.leaveGroup() // teardown closes its files
	s.teardown()
	if s.launch.Group != nil {
		err = errors.Join(err, s.launch.Group.Remove())
	}
	if err = errors.Join(err, spares.Remove(s.launch.ID, "")); err != nil {
		s.log.Error("the spare could not be removed", "error", err)
	}
}
