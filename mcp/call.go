package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// host is what the calls of one server share. The caller of newHost fills the exported fields before the first call.
type host struct {
	Options  setup.Options
	Service  *service.Service // for all owners; a call sees its own part
	Sessions *sessions
	Links    *links
	Log      *slog.Logger
	// Context ends when the server does. Go starts a function in the background; the server waits for it.
	Context context.Context //nolint:containedctx // commands live as long as the server
	Go      func(func())
	// Changed reports that a tool changed a file of a sandbox.
	Changed func(sb core.Sandbox, path string)

	secrets  secrets
	written  writtenFiles
	running  runningExecs
	pictures pictures
}

// runningCommands counts the commands whose output the server holds.
func (h *host) runningCommands() int { return h.running.count() }

// call is one tool call (or one read of a resource) and who makes it.
type call struct {
	host    *host
	who     Identity
	session *session
	// service sees what the caller may see.
	service *service.Service
	request mcp.CallToolRequest
	// notices are sentences for the user, which the result carries.
	notices []string
	// sent counts progress notifications.
	sent int
	mu   sync.Mutex
}

// call begins a call, or with the zero request the read of a resource, for the caller that ctx names.
func (h *host) call(ctx context.Context, request mcp.CallToolRequest) *call {
	who := identityFrom(ctx)
	session := h.Sessions.of(ctx, who)
	return &call{host: h, who: who, session: session, service: h.serviceFor(who, session.id), request: request}
}

// The labels that say whose a sandbox is and that it was launched here.
const (
	ownerLabel   = "sb.mcp.owner"
	sessionLabel = "sb.mcp.session"
)

// serviceFor is the service as one caller sees it.
func (h *host) serviceFor(who Identity, session string) *service.Service {
	scope := service.Scope{
		Actor: "mcp/" + session, NamePrefix: h.Options.NamePrefix, MaxSandboxes: h.Options.MaxSandboxes,
		Counted: map[string]string{ownerLabel: who.label()}, Policy: h.Options.Policy,
	}
	if who.Isolated {
		scope.Labels = map[string]string{ownerLabel: who.label()}
		scope.NamePrefix += who.Owner + "-"
		scope.VolumePrefix = who.Owner + "-"
	}
	if who.MaxSandboxes > 0 && (scope.MaxSandboxes == 0 || who.MaxSandboxes < scope.MaxSandboxes) {
		scope.MaxSandboxes = who.MaxSandboxes
	}
	return h.Service.Within(scope)
}

// resolve finds the sandbox that an argument names, and knows its secrets then: what cannot be kept out of its output is not shown.
func (c *call) resolve(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.find(ctx, ref)
	if err != nil {
		return sb, err
	}
	if err := c.host.secrets.know(ctx, c.service, sb); err != nil {
		return sb, err
	}
	return sb, nil
}

// use is resolve for what works with the sandbox, which lives on as long as its user does.
func (c *call) use(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.resolve(ctx, ref)
	if err == nil {
		c.adopt(sb)
	}
	return sb, err
}

// find is resolve for what shows nothing of the sandbox's: by the name it was asked for, too, where a prefix was added.
func (c *call) find(ctx context.Context, ref string) (core.Sandbox, error) {
	if ref == "" {
		return core.Sandbox{}, core.Errorf(core.KindUsage, "resolve", "", "no sandbox is named").WithHint("sandbox_list shows the sandboxes; sandbox_launch makes one")
	}
	sb, err := c.service.Resolve(ctx, ref)
	if errors.Is(err, core.KindNotFound) {
		prefix := c.host.Options.NamePrefix
		if c.who.Isolated {
			prefix += c.who.Owner + "-"
		}
		if prefixed, prefixedErr := c.service.Resolve(ctx, prefix+ref); prefixedErr == nil {
			return prefixed, nil
		}
		err = core.Errorf(core.KindNotFound, "resolve", ref, "there is no sandbox %q", ref).WithHint("sandbox_list shows the sandboxes; sandbox_launch makes one")
	}
	return sb, err
}

// progress tells the client what goes on, if it asked for that.
func (c *call) progress(ctx context.Context, message string) {
	meta := c.request.Params.Meta
	if meta == nil || meta.ProgressToken == nil {
		return
	}
	c.mu.Lock()
	c.sent++
	sent := c.sent
	c.mu.Unlock()
	// A client that is too slow misses some; the result has it all.
	_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
		"progressToken": meta.ProgressToken, "progress": sent, "message": message,
	})
}

// keep makes the session keep a sandbox alive that it launched. A client that is gone by now has left it.
func (c *call) keep(ctx context.Context, sb core.Sandbox) {
	c.host.Sessions.keep(ctx, c.session, sb)
}

// adopt lets a session keep a leased sandbox alive that it uses and that another one launched.
func (c *call) adopt(sb core.Sandbox) {
	if sb.Lease.Renewed && sb.State.Live() {
		c.session.lease(sb)
	}
}
