package auth

import (
	"cmp"
	"context"
	"strconv"
)

// Identity is who makes a request. The zero value is the person whose process this is.
type Identity struct {
	// Owner is the name of the sandboxes' owner.
	Owner string
	// Isolated callers see only what their owner launched.
	Isolated bool
	// ReadOnly callers may call only tools that change nothing.
	ReadOnly bool
	// MaxSandboxes bounds the owner's live sandboxes; 0 is no bound of its own.
	MaxSandboxes int
	// Rate is how many requests a second; 0 is the server's own bound.
	Rate float64
	// Metrics callers may read the metrics; NoTools callers may call no tool at all.
	Metrics, NoTools bool
	// Key is the API key's id, for logs and limits.
	Key string
}

// Label is the value by which sandboxes tell their owner. The person whose process this is has one that no key's
// owner can have, for names do not begin with it.
func (i Identity) Label() string { return cmp.Or(i.Owner, "-") }

type identityKey struct{}

// WithIdentity says in ctx who makes the request.
func WithIdentity(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, identity)
}

// IdentityFrom returns the caller that WithIdentity named, else the zero Identity.
func IdentityFrom(ctx context.Context) Identity {
	identity, _ := ctx.Value(identityKey{}).(Identity)
	return identity
}

type clientKey struct{}

// WithClient remembers the context that ends when the client is gone, and not when it cancels a request.
func WithClient(ctx, client context.Context) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// Canceled says whether the client itself ended the request: it is still there.
func Canceled(ctx context.Context) bool {
	client, ok := ctx.Value(clientKey{}).(context.Context)
	return ctx.Err() != nil && (!ok || client.Err() == nil)
}

// OwnerKey tells owners apart, and the isolated from others of the same name.
func OwnerKey(identity Identity) string {
	return strconv.FormatBool(identity.Isolated) + "/" + identity.Owner
}
