//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

// connect gives the sandbox's network stack its interfaces.
func (b *Box) connect() error {
	conn, err := client.ConnectTo(b.container.Sandbox.GetControlSocketPath())
	if err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	defer func() { _ = conn.Close() }()
	args, err := b.config.Network.links()
	if err != nil {
		return err
	}
	defer args.close()
	if err := conn.Call(boot.ContMgrCreateLinksAndRoutes, &args.CreateLinksAndRoutesArgs, nil); err != nil {
		return fmt.Errorf("connecting the sandbox's network: %w", err)
	}
	return nil
}

// links describes the interfaces to gVisor, with a copy of the card.
type links struct{ boot.CreateLinksAndRoutesArgs }

func (l *links) close() {
	for _, f := range l.Files {
		_ = f.Close()
	}
}

// links describes the loopback and, if there is a network, its interface. The interface has no link address, so it
// carries bare IP packets.
func (n *Network) links() (*links, error) {
	if n == nil {
		return &links{boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}}}, nil
	}
	nic, err := unix.FcntlInt(n.NIC.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(nic), "nic")
	const name = "eth0"
	address := net.IP(n.Address.AsSlice())
	gateway := net.IP(n.Gateway.AsSlice())
	anywhere := net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	subnet := net.IPNet{IP: address.Mask(net.CIDRMask(n.Bits, 32)), Mask: net.CIDRMask(n.Bits, 32)}
	return &links{boot.CreateLinksAndRoutesArgs{
		FilePayload:   urpc.FilePayload{Files: []*os.File{file}},
		LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink},
		FDBasedLinks: []boot.FDBasedLink{{
			Name: name, MTU: n.MTU, NumChannels: 1,
			Addresses:         []boot.IPWithPrefix{{Address: address, PrefixLen: n.Bits}},
			Routes:            []boot.Route{{Destination: subnet}},
			TXChecksumOffload: true, RXChecksumOffload: true,
			QDisc: config.QDiscFIFO,
		}},
		Defaultv4Gateway: boot.DefaultRoute{Route: boot.Route{Destination: anywhere, Gateway: gateway}, Name: name},
	}}, nil
}

// Dial connects to a TCP port inside. The port may also listen on the sandbox's loopback, because sb-guest connects to
// it inside and copies the bytes. Dial does not use gVisor's port forwarding, which loses bytes after a short write
// (runsc/boot/portforward, doCopy).
func (b *Box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "dial"), os.NewFile(uintptr(fds[1]), "dial")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	helper, err := b.Exec(
		ctx,
		Command{Argv: seen(guest.DialArgv(port)), Env: []string{}, Dir: "/", Files: []*os.File{theirs, theirs}, Hidden: true},
	)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the sandbox's %s: %w", GuestPath, err), conn.Close())
	}
	carried := &carried{Conn: conn, helper: helper}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	_, err = io.ReadFull(conn, make([]byte, 1))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = carried.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unix.ECONNREFUSED
	}
	return carried, nil
}

// carried is a connection that a process inside carries. Close also ends that process.
type carried struct {
	net.Conn
	helper *Process
	once   sync.Once
}

func (c *carried) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		// The error does not matter: the sandbox may have ended.
		_ = c.helper.Signal(unix.SIGKILL)
		_, _ = c.helper.Wait()
	})
	return err
}

// CloseWrite passes on the end of one direction.
func (c *carried) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
