package modal

import (
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// SetNetwork implements core.NetworkPolicer. For a running sandbox Modal has only allow-lists. An empty one means no
// network, and one that allows everything means all.
func (p *Provider) SetNetwork(ctx context.Context, id string, network core.Network) (core.Sandbox, error) {
	access := pb.NetworkAccess_builder{NetworkAccessType: pb.NetworkAccess_ALLOWLIST}
	switch network.Mode {
	case core.NetworkAllow:
		access.AllowedCidrs, access.AllowedDomains = splitAllowed(network.Allow)
	case core.NetworkAll:
		access.AllowedCidrs, access.AllowedDomains = []string{"0.0.0.0/0", "::/0"}, []string{"*"}
	case core.NetworkNone, core.NetworkInternal, core.NetworkDefault:
	}
	var d described
	var r *router
	err := client.Together(
		func() (err error) { r, err = p.router(ctx, id, false); return err },
		func() (err error) { d, err = p.describe(ctx, id); return err },
	)
	if err != nil {
		return core.Sandbox{}, err
	}
	_, err = call(ctx, r, func(ctx context.Context) (*pb.TaskSetNetworkAccessResponse, error) {
		return r.stub.TaskSetNetworkAccess(
			ctx, pb.TaskSetNetworkAccessRequest_builder{TaskId: r.task, NetworkAccess: access.Build()}.Build(),
		)
	})
	if err != nil {
		return core.Sandbox{}, p.failed(ctx, "policy", id, err)
	}
	var rec record
	if text := d.tags[recordTag]; text != "" {
		if err := json.Unmarshal([]byte(text), &rec); err != nil {
			return core.Sandbox{}, core.Errorf(core.KindInternal, "modal.policy", id, "its record at Modal is damaged")
		}
	}
	rec.Spec.Network = network
	d.tags[recordTag] = rec.text()
	if err := p.setTags(ctx, r.client, id, d.tags); err != nil {
		return core.Sandbox{}, err
	}
	return d.sandbox(""), nil
}

// setTags replaces a sandbox's tags.
func (p *Provider) setTags(ctx context.Context, c *client.Client, id string, tags map[string]string) error {
	raw, err := c.Raw(ctx)
	if err != nil {
		return client.Classify("tags", id, err)
	}
	list := make([]*pb.SandboxTag, 0, len(tags))
	for name, value := range tags {
		list = append(list, pb.SandboxTag_builder{TagName: name, TagValue: value}.Build())
	}
	request := pb.SandboxTagsSetRequest_builder{SandboxId: id, EnvironmentName: c.Account.Environment, Tags: list}.Build()
	if firstGeneration(id) {
		_, err = raw.SandboxTagsSet(ctx, request)
	} else {
		_, err = raw.SandboxTagsSetV2(ctx, request)
	}
	return client.Classify("tags", id, err)
}

// Enforcement implements core.Enforcer.
func (p *Provider) Enforcement(_ context.Context, _ string, spec core.Spec) ([]core.Enforcement, error) {
	m, err := modalspec.Of(spec)
	if err != nil {
		return nil, err
	}
	list := spec.EnforcedFields()
	for i := range list {
		e := &list[i]
		e.Strength = core.Full
		switch e.Field {
		case "cpu":
			e.How = "Modal's hard limit of the cores"
			if m.CPULimit > spec.CPU {
				e.How = fmt.Sprintf("reserved; Modal's hard limit is that of --modal cpu_limit, %v", m.CPULimit)
			}
		case "memory":
			e.How = "Modal's hard limit; a sandbox above it is ended"
			if m.MemoryLimit > spec.Memory {
				e.How = fmt.Sprintf(
					"reserved; Modal's hard limit is that of --modal memory_limit, %s: a sandbox above it is ended", m.MemoryLimit,
				)
			}
		case "timeout", "idle_timeout":
			e.How = "Modal ends the sandbox, even after sb is gone"
		case "inbound":
			e.How = "Modal's tunnels and connect tokens take these addresses only"
		case "volumes":
			e.How = "mounted read-only"
		case "network":
			e.How = "Modal's own filter"
			if _, domains := splitAllowed(spec.Network.Allow); spec.Network.Mode == core.NetworkAllow && len(domains) > 0 {
				e.Strength, e.How = core.Partial, "Modal's filter: CIDRs by address, domains by the name in the TLS handshake"
				e.Gap = "DNS stays open, and an allowed name can be claimed to another server"
			}
		default:
			e.Strength, e.How, e.Gap = core.Unknown, "Modal does not say", "Modal does not say"
		}
	}
	return list, nil
}
