package modal

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// tunnelPatience is how long Modal may take to open tunnels, in seconds.
const tunnelPatience = 50

// ports asks where a sandbox's ports are reachable.
func (p *Provider) ports(ctx context.Context, c *client, id string) ([]core.PortMapping, error) {
	raw, err := c.raw(ctx)
	if err != nil {
		return nil, classify("ports", id, err)
	}
	request := pb.SandboxGetTunnelsRequest_builder{SandboxId: id, Timeout: tunnelPatience}.Build()
	var reply *pb.SandboxGetTunnelsResponse
	if firstGeneration(id) {
		reply, err = raw.SandboxGetTunnels(ctx, request)
	} else {
		reply, err = raw.SandboxGetTunnelsV2(ctx, request)
	}
	if err != nil {
		return nil, classify("ports", id, err)
	}
	if reply.GetResult().GetStatus() == pb.GenericResult_GENERIC_STATUS_TIMEOUT {
		return nil, core.Errorf(core.KindTimeout, "modal.ports", id, "Modal has not opened the ports in time")
	}
	var mappings []core.PortMapping
	for _, tunnel := range reply.GetTunnels() {
		host, port := tunnel.GetHost(), tunnel.GetPort()
		if tunnel.GetUnencryptedHost() != "" {
			host, port = tunnel.GetUnencryptedHost(), tunnel.GetUnencryptedPort()
		}
		mappings = append(mappings, core.PortMapping{Sandbox: int(tunnel.GetContainerPort()), Address: net.JoinHostPort(host, strconv.Itoa(int(port)))})
	}
	slices.SortFunc(mappings, func(a, b core.PortMapping) int { return cmp.Compare(a.Sandbox, b.Sandbox) })
	return mappings, nil
}
