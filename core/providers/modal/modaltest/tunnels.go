package modaltest

import (
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// SandboxGetTunnels returns the addresses of a sandbox's ports. They are on this machine's loopback, where TLS is not
// needed.
func (s *Server) SandboxGetTunnels(
	ctx context.Context, r *pb.SandboxGetTunnelsRequest,
) (*pb.SandboxGetTunnelsResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	if err := box.await(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var tunnels []*pb.TunnelData
	for _, port := range box.definition.GetOpenPorts().GetPorts() {
		host, number := "", uint32(0)
		for _, mapping := range box.backend.Ports {
			if mapping.Sandbox == int(port.GetPort()) {
				host, number = splitAddress(mapping)
			}
		}
		tunnels = append(tunnels, pb.TunnelData_builder{
			Host: host, Port: number, UnencryptedHost: &host, UnencryptedPort: &number, ContainerPort: port.GetPort(),
		}.Build())
	}
	return pb.SandboxGetTunnelsResponse_builder{Result: success(), Tunnels: tunnels}.Build(), nil
}

// publish gives each open port of a sandbox an address on loopback for the sandbox's lifetime. If this machine may not
// connect to a port, its address closes each connection.
func (s *Server) publish(box *sandbox, backend core.Sandbox) ([]core.PortMapping, error) {
	var published []core.PortMapping
	for _, port := range box.definition.GetOpenPorts().GetPorts() {
		inside := ""
		for _, mapping := range backend.Ports {
			if mapping.Sandbox == int(port.GetPort()) {
				inside = mapping.Address
			}
		}
		var listen net.ListenConfig
		listener, err := listen.Listen(s.ctx, "tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(box.wanted, func() { _ = listener.Close() })
		s.work.Go(func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				s.work.Go(func() { s.carry(box, conn, inside) })
			}
		})
		published = append(published, core.PortMapping{Sandbox: int(port.GetPort()), Address: listener.Addr().String()})
	}
	return published, nil
}

// carry copies between a connection and a port inside until both ends have closed. During that time the sandbox is not
// idle.
func (s *Server) carry(box *sandbox, outer net.Conn, inside string) {
	defer func() { _ = outer.Close() }()
	if inside == "" {
		return
	}
	s.active(box, 1, false)
	defer s.active(box, -1, false)
	var dialer net.Dialer
	inner, err := dialer.DialContext(box.wanted, "tcp", inside)
	if err != nil {
		return
	}
	defer func() { _ = inner.Close() }()
	both := func() { _, _ = outer.Close(), inner.Close() }
	defer context.AfterFunc(box.wanted, both)()
	var ways sync.WaitGroup
	for _, way := range []struct{ to, from net.Conn }{{inner, outer}, {outer, inner}} {
		ways.Go(func() {
			if _, err := io.Copy(way.to, way.from); err != nil {
				both()
			} else if half, ok := way.to.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	ways.Wait()
}

func splitAddress(mapping core.PortMapping) (string, uint32) {
	host, port, err := net.SplitHostPort(mapping.Address)
	if err != nil {
		return mapping.Address, 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return host, 0
	}
	return host, uint32(number)
}

// SandboxGetTunnelsV2 is SandboxGetTunnels.
func (s *Server) SandboxGetTunnelsV2(
	ctx context.Context, r *pb.SandboxGetTunnelsRequest,
) (*pb.SandboxGetTunnelsResponse, error) {
	return s.SandboxGetTunnels(ctx, r)
}

// proxyPrefix is the prefix of the ids of proxies.
const proxyPrefix = "pr-"

// ProxyGet finds a proxy.
func (s *Server) ProxyGet(_ context.Context, r *pb.ProxyGetRequest) (*pb.ProxyGetResponse, error) {
	if slices.Contains(s.opts.Proxies, r.GetName()) {
		return pb.ProxyGetResponse_builder{Proxy: pb.Proxy_builder{
			Name: r.GetName(), ProxyId: proxyPrefix + r.GetName(), EnvironmentName: environmentName(r.GetEnvironmentName()),
		}.Build()}.Build(), nil
	}
	return nil, status.Errorf(codes.NotFound, "Proxy '%s' not found", r.GetName())
}
