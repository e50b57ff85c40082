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
