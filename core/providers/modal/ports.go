package modal

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// tunnelPatience is the longest time for Modal to open tunnels, in seconds.
const tunnelPatience = 50

// ports returns the tunnels of a sandbox, sorted by port.
func (p *Provider) ports(ctx context.Context, id string) ([]*pb.TunnelData, error) {
	_, raw, err := p.control(ctx, "ports")
	if err != nil {
		return nil, err
	}
	request := pb.SandboxGetTunnelsRequest_builder{SandboxId: id, Timeout: tunnelPatience}.Build()
	var reply *pb.SandboxGetTunnelsResponse
	if firstGeneration(id) {
		reply, err = raw.SandboxGetTunnels(ctx, request)
	} else {
		reply, err = raw.SandboxGetTunnelsV2(ctx, request)
	}
	if err != nil {
		return nil, client.Classify("ports", id, err)
	}
	if reply.GetResult().GetStatus() == pb.GenericResult_GENERIC_STATUS_TIMEOUT {
		return nil, core.Errorf(core.KindTimeout, "modal.ports", id, "Modal has not opened the ports in time")
	}
	tunnels := reply.GetTunnels()
	slices.SortFunc(tunnels, func(a, b *pb.TunnelData) int {
		return cmp.Compare(a.GetContainerPort(), b.GetContainerPort())
	})
	return tunnels, nil
}

// address returns the address of a tunnel. It is the one without TLS if the tunnel has one.
func address(tunnel *pb.TunnelData) string {
	host, port := tunnel.GetHost(), tunnel.GetPort()
	if tunnel.GetUnencryptedHost() != "" {
		host, port = tunnel.GetUnencryptedHost(), tunnel.GetUnencryptedPort()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// mappings converts tunnels to port mappings.
func mappings(tunnels []*pb.TunnelData) []core.PortMapping {
	list := make([]core.PortMapping, len(tunnels))
	for i, tunnel := range tunnels {
		list[i] = core.PortMapping{Sandbox: int(tunnel.GetContainerPort()), Address: address(tunnel)}
	}
	return list
}

// Tunnels implements core.Tunneler. Modal reports whether a port has TLS. Only the spec records whether it has HTTP/2.
func (p *Provider) Tunnels(ctx context.Context, id string) ([]core.Tunnel, error) {
	var d described
	var found []*pb.TunnelData
	err := client.Together(
		func() (err error) { d, err = p.describe(ctx, id); return err },
		func() (err error) { found, err = p.ports(ctx, id); return err },
	)
	if d.id != "" && !d.sandbox("").State.Live() {
		return nil, p.notRunning(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	requested := map[int]core.PortProtocol{}
	for _, port := range d.sandbox("").Spec.Ports {
		requested[port.Sandbox] = cmp.Or(port.Protocol, core.PortHTTPS)
	}
	tunnels := make([]core.Tunnel, len(found))
	for i, tunnel := range found {
		t := core.Tunnel{
			Port: int(tunnel.GetContainerPort()), Address: address(tunnel), Protocol: requested[int(tunnel.GetContainerPort())],
		}
		if t.Protocol == core.PortDefault {
			t.Protocol = core.PortHTTPS
			if tunnel.GetUnencryptedHost() != "" {
				t.Protocol = core.PortTCP
			}
		}
		switch {
		case t.Protocol == core.PortTCP:
		case tunnel.GetUnencryptedHost() != "" && tunnel.GetUnencryptedHost() == tunnel.GetHost() &&
			loopback(tunnel.GetHost()):
			t.URL = "http://" + t.Address // "sb modal serve" has no TLS
		default:
			t.Address = net.JoinHostPort(tunnel.GetHost(), strconv.Itoa(int(tunnel.GetPort())))
			t.URL = "https://" + strings.TrimSuffix(t.Address, ":443")
		}
		tunnels[i] = t
	}
	return tunnels, nil
}

// ConnectToken implements core.Tunneler.
func (p *Provider) ConnectToken(ctx context.Context, id string, opts core.ConnectOptions) (core.ConnectToken, error) {
	_, raw, err := p.control(ctx, "token")
	if err != nil {
		return core.ConnectToken{}, err
	}
	request := pb.SandboxCreateConnectTokenRequest_builder{SandboxId: id, UserMetadata: opts.Metadata}
	if opts.Port != 0 {
		request.Port = new(uint32(opts.Port)) //nolint:gosec // a port
	}
	var reply *pb.SandboxCreateConnectTokenResponse
	if firstGeneration(id) {
		reply, err = raw.SandboxCreateConnectToken(ctx, request.Build())
	} else {
		reply, err = raw.SandboxCreateConnectTokenV2(ctx, request.Build())
	}
	if err != nil {
		return core.ConnectToken{}, p.failed(ctx, "token", id, err)
	}
	return core.ConnectToken{URL: reply.GetUrl(), Token: core.NewSecretValue(reply.GetToken())}, nil
}
