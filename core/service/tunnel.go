package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// Tunnels returns the ports that a sandbox publishes, sorted by port. For a provider without Tunneler they are those of
// Sandbox.Ports.
func (s Ports) Tunnels(ctx context.Context, ref string) ([]core.Tunnel, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	if tunneler, ok := core.Optional[core.Tunneler](p); ok {
		tunnels, err := tunneler.Tunnels(ctx, sb.ID)
		return tunnels, about("port", ref, sb, err)
	}
	tunnels := []core.Tunnel{}
	for _, port := range sb.Ports {
		tunnels = append(tunnels, core.Tunnel{Port: port.Sandbox, Protocol: core.PortTCP, Address: port.Address})
	}
	return tunnels, nil
}

// ConnectToken makes a token that allows its holder to connect to a sandbox. The audit log does not have it.
func (s Ports) ConnectToken(
	ctx context.Context, ref string, opts core.ConnectOptions,
) (token core.ConnectToken, err error) {
	args := map[string]any{"port": opts.Port, "metadata": opts.Metadata}
	err = s.act(ctx, "tunnel token", ref, args, func(sb core.Sandbox, _ core.Provider) error {
		if opts.Port < 0 || opts.Port > 65535 {
			return core.Invalid("port", "%d is not a port", opts.Port)
		}
		if core.HasControl(opts.Metadata) || len(opts.Metadata) > 512 {
			return core.Invalid("metadata", "it must have at most 512 characters, none of them control characters")
		}
		tunneler, err := capable[core.Tunneler](s.base, sb.Provider, "tunnel token")
		if err != nil {
			return err
		}
		token, err = tunneler.ConnectToken(ctx, sb.ID, opts)
		return err
	})
	return token, err
}
