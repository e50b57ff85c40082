package core

import "context"

// Tunnel is a published port as others reach it.
type Tunnel struct {
	// Port is the port inside.
	Port     int          `json:"port"`
	Protocol PortProtocol `json:"protocol"`
	// Address is host:port.
	Address string `json:"address"`
	// URL is there for https and h2.
	URL string `json:"url,omitempty"`
}

// ConnectOptions say what a connect token is for.
type ConnectOptions struct {
	// Port is the port inside that requests go to; 0 is the provider's usual one.
	Port int
	// Metadata is a note that the sandbox finds in a header of each request.
	Metadata string
}

// ConnectToken lets whoever has it connect to a sandbox without its port being open to everybody.
type ConnectToken struct {
	URL string `json:"url"`
	// Token goes into the Authorization header as "Bearer TOKEN".
	Token SecretValue `json:"-"`
}

// Tunneler publishes ports at addresses of its own. Its capability is CapTunnels.
type Tunneler interface {
	// Tunnels returns the published ports, sorted by port. KindConflict: the sandbox does not run.
	Tunnels(ctx context.Context, id string) ([]Tunnel, error)
	// ConnectToken makes a token. KindUnsupported: this provider has tunnels but no tokens.
	ConnectToken(ctx context.Context, id string, opts ConnectOptions) (ConnectToken, error)
}

// Tunnels returns the ports that a sandbox publishes, sorted by port. Of a provider without
// Tunneler they are those of Sandbox.Ports.
func (s *Service) Tunnels(ctx context.Context, ref string) ([]Tunnel, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	if tunneler, ok := As[Tunneler](p); ok && p.Capabilities().Can(CapTunnels) {
		tunnels, err := tunneler.Tunnels(ctx, sb.ID)
		return tunnels, Wrap("port", ref, err)
	}
	tunnels := []Tunnel{}
	for _, port := range sb.Ports {
		tunnels = append(tunnels, Tunnel{Port: port.Sandbox, Protocol: PortTCP, Address: port.Address})
	}
	return tunnels, nil
}

// ConnectToken makes a token with which one can connect to a sandbox. The audit log does not have it.
func (s *Service) ConnectToken(ctx context.Context, ref string, opts ConnectOptions) (token ConnectToken, err error) {
	args := map[string]any{"port": opts.Port, "metadata": opts.Metadata}
	err = s.act(ctx, "tunnel token", ref, args, func(sb Sandbox, _ Provider) error {
		if opts.Port < 0 || opts.Port > 65535 {
			return invalid("port", "%d is not a port", opts.Port)
		}
		if hasControl(opts.Metadata) || len(opts.Metadata) > 512 {
			return invalid("metadata", "it must have at most 512 characters, none of them control characters")
		}
		tunneler, err := capable[Tunneler](s, sb.Provider, "tunnel token", CapTunnels)
		if err != nil {
			return err
		}
		token, err = tunneler.ConnectToken(ctx, sb.ID, opts)
		return err
	})
	return token, err
}
