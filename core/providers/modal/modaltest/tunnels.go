package modaltest

import (
	"context"
	"net"
	"slices"
	"strconv"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// SandboxGetTunnels says where a sandbox's ports are reachable: on this machine's loopback, where nothing needs TLS.
func (s *Server) SandboxGetTunnels(ctx context.Context, r *pb.SandboxGetTunnelsRequest) (*pb.SandboxGetTunnelsResponse, error) {
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

// shut gives the ports of a sandbox that this machine may not connect to an address all the same, which ends whatever connects as long
// as the sandbox is there.
func (s *Server) shut(box *sandbox) ([]core.PortMapping, error) {
	if admits(box.definition, loopback) {
		return nil, nil
	}
	var shut []core.PortMapping
	for _, port := range box.definition.GetOpenPorts().GetPorts() {
		var listen net.ListenConfig
		listener, err := listen.Listen(s.ctx, "tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(box.wanted, func() { _ = listener.Close() })
		s.work.Go(func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				_ = conn.Close()
			}
		})
		shut = append(shut, core.PortMapping{Sandbox: int(port.GetPort()), Address: listener.Addr().String()})
	}
	return shut, nil
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
func (s *Server) SandboxGetTunnelsV2(ctx context.Context, r *pb.SandboxGetTunnelsRequest) (*pb.SandboxGetTunnelsResponse, error) {
	return s.SandboxGetTunnels(ctx, r)
}

// proxyPrefix begins the ids of proxies.
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
