package auth

import (
	"cmp"
	"context"
	"strconv"

	"github.com/seed-0724f904/sb/mcp/setup"
)

// Identity describes the caller of a request. The zero value is the user who runs this process.
type Identity struct {
	// Owner is the name of the sandboxes' owner.
	Owner string
	// Isolated callers see only the resources of their owner.
	Isolated bool
	// ReadOnly callers may call only tools that change nothing.
	ReadOnly bool
	// MaxSandboxes bounds the owner's live sandboxes; 0 adds no bound.
	MaxSandboxes int
	// Rate bounds the requests per second; 0 means the server's bound.
	Rate float64
	// Metrics callers may read the metrics; NoTools callers may call no tool at all.
	Metrics, NoTools bool
	// Key is the API key's id, for logs and limits.
	Key string
	// Selection is what the request wants of the server's tools; nil is all of them.
	Selection *setup.Selection
}

// Label returns the value of a sandbox's owner label. The user who runs this process gets "-", which no key's owner can
// have: names do not begin with it.
func (i Identity) Label() string { return cmp.Or(i.Owner, "-") }

type identityKey struct{}

// WithIdentity returns a context that carries the caller of a request.
func WithIdentity(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, identity)
}

// IdentityFrom returns the caller that WithIdentity named, else the zero Identity.
func IdentityFrom(ctx context.Context) Identity {
	identity, _ := ctx.Value(identityKey{}).(Identity)
	return identity
}

type clientKey struct{}

// WithClient returns a context that carries the client's context, which ends with the connection and not with a
// request.
func WithClient(ctx, client context.Context) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// Canceled reports whether ctx ended because the client canceled the request, not because the client disconnected.
func Canceled(ctx context.Context) bool {
	client, ok := ctx.Value(clientKey{}).(context.Context)
	return ctx.Err() != nil && (!ok || client.Err() == nil)
}

// OwnerKey identifies an owner. An isolated owner differs from one of the same name that is not isolated.
func OwnerKey(identity Identity) string {
	return strconv.FormatBool(identity.Isolated) + "/" + identity.Owner
}
