//go:build linux

package local

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// DialPort implements core.PortForwarder. The supervisor copies bytes between a socket of this process and the
// sandbox's network stack. If the program listens on the sandbox's loopback only, sb-guest inside copies them. Neither
// needs a network of the sandbox.
func (p *Provider) DialPort(ctx context.Context, id string, port int) (net.Conn, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, core.Errorf(core.KindExhausted, "local.port", id, "no descriptors are left: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "port")
	defer func() { _ = ours.Close() }()
	defer func() { _ = theirs.Close() }()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	if _, err := p.control(ctx, id, &wire.Request{Verb: wire.VerbDial, Port: port}, theirs); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(ours)
	return conn, core.Wrap("local.port", id, err)
}
