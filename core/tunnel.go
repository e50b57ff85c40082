package core

import "context"

// Tunnel is a published port with its public address.
type Tunnel struct {
	// Port is the port in the sandbox.
	Port     int          `json:"port"`
	Protocol PortProtocol `json:"protocol"`
	// Address is host:port.
	Address string `json:"address"`
	// URL is set for https and h2.
	URL string `json:"url,omitempty"`
}

// ConnectOptions are the options of a connect token.
type ConnectOptions struct {
	// Port is the port in the sandbox for the requests; 0 means the provider's default.
	Port int
	// Metadata is text that the sandbox receives in a header of each request.
	Metadata string
}

// ConnectToken gives its holder access to a sandbox whose port is not public.
type ConnectToken struct {
	URL string `json:"url"`
	// Token goes into the Authorization header as "Bearer TOKEN".
	Token SecretValue `json:"-"`
}

// Tunneler publishes ports at public addresses. Its capability is CapTunnels.
type Tunneler interface {
	// Tunnels returns the published ports, sorted by port. KindConflict: the sandbox does not run.
	Tunnels(ctx context.Context, id string) ([]Tunnel, error)
	// ConnectToken creates a token. KindUnsupported: this provider has tunnels but no tokens.
	ConnectToken(ctx context.Context, id string, opts ConnectOptions) (ConnectToken, error)
}
