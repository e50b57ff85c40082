//go:build linux

package engine

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
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

// links is what gVisor is told about the interfaces, with a copy of the card.
type links struct{ boot.CreateLinksAndRoutesArgs }

func (l *links) close() {
	for _, f := range l.Files {
		_ = f.Close()
	}
}

// links describes the loopback and, where there is a network, its interface. Without a link address that carries bare
// IP packets.
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

// Dial connects to a TCP port inside, one that listens on the sandbox's loopback included. gVisor ends the connection
// whole when either side ends its direction.
func (b *Box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "forward"), os.NewFile(uintptr(fds[1]), "forward")
	defer func() { _ = ours.Close() }()
	defer func() { _ = theirs.Close() }()
	err = b.container.PortForward(&boot.PortForwardOpts{
		FilePayload: urpc.FilePayload{Files: []*os.File{theirs}}, ContainerID: b.config.ID, Port: port,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to port %d of the sandbox: %w", port, err)
	}
	return net.FileConn(ours)
}
