package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/links"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/session"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Host has the state that all calls of one server share. Its creator fills the exported fields before the first call.
type Host struct {
	Options  setup.Options
	Service  *service.Service // for all owners; each Call has its own
	Sessions *session.Table
	Links    *links.Links
	// Words are for texts that name tools.
	Words Words
	Log   *slog.Logger
	// Context ends when the server does. Go starts a function in the background; the server waits for it.
	Context context.Context //nolint:containedctx // commands live as long as the server
	Go      func(func())
	// Changed reports that a tool changed a file of a sandbox.
	Changed func(sb core.Sandbox, path string)

	Secrets   secrets
	launched  launched
	launching launching
	// continuing has the work of calls that outlasted the soft deadline.
	continuing continuing
	editing    editing
	running    runningExecs
	single     singleRuns
	pictures   reply.Pictures
}

// RunningCommands counts the commands whose output the server holds.
func (h *Host) RunningCommands() int { return h.running.Count() }

// Call is one tool call, or one read of a resource, with its caller.
type Call struct {
	Host     *Host
	Identity auth.Identity
	Session  *session.Session
	// Service has the caller's permissions.
	Service *service.Service
	Request mcp.CallToolRequest
	// MaxOutput replaces the server's budget for the output in a reply; 0 keeps it.
	MaxOutput int
	// notices are sentences for the user, which the result carries.
	notices []string
	// steps has the progress of work that can outlast this call; nil for other work.
	steps *steps

	mu   sync.Mutex
	sent int // notifications
}

// Call returns a Call for the caller in ctx. The zero request stands for the read of a resource.
func (h *Host) Call(ctx context.Context, request mcp.CallToolRequest) *Call {
	identity := auth.IdentityFrom(ctx)
	client := h.Sessions.Of(ctx, identity)
	svc := h.ServiceFor(identity, client.ID)
	return &Call{Host: h, Identity: identity, Session: client, Service: svc, Request: request}
}

// The labels that name a sandbox's owner and the session that launched it.
const (
	ownerLabel   = "sb.mcp.owner"
	sessionLabel = "sb.mcp.session"
)

// ServiceFor returns the service with the permissions and limits of one caller.
func (h *Host) ServiceFor(identity auth.Identity, client string) *service.Service {
	scope := service.Scope{
		Actor: "mcp/" + client, NamePrefix: h.Options.NamePrefix, MaxSandboxes: h.Options.MaxSandboxes,
		Counted: map[string]string{ownerLabel: identity.Label()}, Policy: h.Options.Policy,
	}
	if identity.Isolated {
		scope.Labels = map[string]string{ownerLabel: identity.Label()}
		scope.NamePrefix += identity.Owner + "-"
		scope.VolumePrefix = volumePrefix(identity.Owner)
	}
	if identity.MaxSandboxes > 0 && (scope.MaxSandboxes == 0 || identity.MaxSandboxes < scope.MaxSandboxes) {
		scope.MaxSandboxes = identity.MaxSandboxes
	}
	return h.Service.Within(scope)
}

// volumePrefix begins the names of an owner's volumes. The hash keeps the volumes of "alice-b" from those of "alice".
func volumePrefix(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return owner + "-" + hex.EncodeToString(sum[:4]) + "-"
}

// Resolve finds a sandbox by reference and loads its secrets, which output must not show. It returns an error if they
// cannot be loaded.
func (c *Call) Resolve(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.Find(ctx, ref)
	if err != nil {
		return sb, err
	}
	if err := c.Host.Secrets.know(ctx, c.Service, sb); err != nil {
		return sb, err
	}
	return sb, nil
}

// Use is Resolve for a call that works with the sandbox. The session then keeps a leased sandbox alive.
func (c *Call) Use(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.Resolve(ctx, ref)
	if err == nil {
		c.adopt(sb)
	}
	return sb, err
}

// Find is Resolve without secrets, for calls that show no content. It also accepts a name without the server's prefix.
// For a launch in progress the error is a *stillLaunching, and for a failed one that of the launch.
func (c *Call) Find(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.find(ctx, ref)
	missing := errors.Is(err, core.KindNotFound)
	if !missing && (err != nil || sb.State != core.StateCreating) {
		return sb, err
	}
	p := c.launching(cmp.Or(sb.Name, ref))
	switch {
	case p == nil:
		return sb, err
	case !p.over():
		return core.Sandbox{}, p.unavailable()
	}
	return p.sb, p.err
}

func (c *Call) find(ctx context.Context, ref string) (core.Sandbox, error) {
	if ref == "" {
		return core.Sandbox{}, core.Errorf(core.KindUsage, "resolve", "", "no sandbox was given").
			WithHint("sandbox_list shows the sandboxes; sandbox_launch creates one")
	}
	sb, err := c.Service.Sandboxes.Resolve(ctx, ref)
	if errors.Is(err, core.KindNotFound) {
		if prefixed, prefixedErr := c.Service.Sandboxes.Resolve(ctx, c.namePrefix()+ref); prefixedErr == nil {
			return prefixed, nil
		}
		err = core.Errorf(core.KindNotFound, "resolve", ref, "there is no sandbox %q", ref).
			WithHint("sandbox_list shows the sandboxes; sandbox_launch creates one")
	}
	return sb, err
}

// namePrefix is the prefix that the names of the caller's sandboxes have.
func (c *Call) namePrefix() string {
	prefix := c.Host.Options.NamePrefix
	if c.Identity.Isolated {
		prefix += c.Identity.Owner + "-"
	}
	return prefix
}

// Progress reports a step of the call's work to the client that waits for it.
func (c *Call) Progress(ctx context.Context, message string) {
	if c.steps != nil {
		c.steps.report(message)
		return
	}
	c.SendProgress(ctx, message)
}

// SendProgress sends the client a progress notification, if the request asked for progress.
func (c *Call) SendProgress(ctx context.Context, message string) {
	meta := c.Request.Params.Meta
	if meta == nil || meta.ProgressToken == nil {
		return
	}
	sent := c.Notify()
	// A client that is too slow misses some notifications; the result is complete.
	_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
		"progressToken": meta.ProgressToken, "progress": sent, "message": message,
	})
}

// Notify counts a notification to the client, which the result must not overtake, and returns their number.
func (c *Call) Notify() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.sent
}

// Notified reports whether Notify was called.
func (c *Call) Notified() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent > 0
}

// Keep makes the session keep alive a sandbox that it launched. If the client has left, Keep settles its sandboxes.
func (c *Call) Keep(ctx context.Context, sb core.Sandbox) {
	c.Host.Sessions.Keep(ctx, c.Session, sb)
}

// adopt makes the session keep alive a leased sandbox that another session launched.
func (c *Call) adopt(sb core.Sandbox) {
	if sb.Lease.Renewed && sb.State.Live() {
		c.Session.Lease(sb)
	}
}
