package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Server serves one Service to any number of clients. ServeStdio and Handler are its transports; Close ends it.
type Server struct {
	opts     setup.Options
	service  *service.Service
	log      *slog.Logger
	mcp      *server.MCPServer
	tools    []Tool
	secrets  secrets
	written  writtenFiles
	running  runningExecs
	pictures pictures
	sessions *sessions
	// subscribed are the resources that clients want to be told of.
	subscribed subscriptions
	// links signs and checks the links to files; nil where none are served.
	links atomic.Pointer[links]
	stats stats

	ctx    context.Context //nolint:containedctx // what runs in the background lives as long as the server
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a server over service, which the caller closes after it; log may be nil. The caller calls Close.
func New(svc *service.Service, log *slog.Logger, opts setup.Options) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	fillZero(&opts.SoftDeadline, 45*time.Second)
	fillZero(&opts.Budget, defaultBudget)
	fillZero(&opts.NamePrefix, "mcp-")
	fillZero(&opts.Lease, 15*time.Minute)
	fillZero(&opts.OnDisconnect, setup.Lease)
	tools, err := selectTools(opts)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, service: svc, log: log, tools: tools}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sessions = newSessions(s)
	s.mcp = s.protocol()
	s.wg.Go(s.watch)
	s.wg.Go(s.sessions.keep)
	return s, nil
}

func fillZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close ends what runs in the background, settles what becomes of the sandboxes of clients that are still
// there, and waits. Commands in sandboxes go on.
func (s *Server) Close() {
	s.sessions.close()
	s.cancel()
	s.wg.Wait()
}

// protocol makes mcp-go's server with everything on offer.
func (s *Server) protocol() *server.MCPServer {
	hooks := &server.Hooks{}
	s.sessions.hook(hooks)
	s.hookSubscriptions(hooks)
	hookErrors(hooks)
	hooks.AddAfterListResources(s.listResources)
	hooks.AddBeforeReadResource(encodeURI)
	protocol := server.NewMCPServer("sb", s.opts.Version,
		server.WithTitle("Sandboxes"),
		server.WithInstructions(s.instructions()),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(true, true),
		server.WithPromptCapabilities(false),
		server.WithCompletions(),
		server.WithLogging(),
		server.WithRecovery(),
		server.WithResourceRecovery(),
		server.WithPaginationLimit(pageSize),
		server.WithHooks(hooks),
		server.WithLogger(s.log),
		server.WithPromptCompletionProvider(completer{s}),
		server.WithResourceCompletionProvider(completer{s}),
		server.WithToolFilter(permitted),
	)
	for _, tool := range s.tools {
		protocol.AddTool(tool.definition(), s.handler(tool))
	}
	s.addResources(protocol)
	s.addPrompts(protocol)
	protocol.AddNotificationHandler(mcp.MethodNotificationRootsListChanged, s.rootsChanged)
	return protocol
}

// permitted leaves callers who may only read the tools that change nothing.
func permitted(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
	if !identityFrom(ctx).ReadOnly {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t mcp.Tool) bool {
		return t.Annotations.ReadOnlyHint == nil || !*t.Annotations.ReadOnlyHint
	})
}

// pageSize is how many entries a page of a list has. All tools fit on one: clients that do not turn pages exist.
const pageSize = 200

// handler adapts a tool to mcp-go.
func (s *Server) handler(tool Tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		begin := time.Now()
		c := s.call(ctx, request)
		c.session.enter()
		defer c.session.leave()
		arguments := request.Params.RawArguments
		if arguments == nil && request.Params.Arguments != nil {
			arguments, _ = json.Marshal(request.Params.Arguments)
		}
		result, err := tool.call(ctx, c, arguments)
		if ask, ok := errors.AsType[*inputNeeded](err); ok {
			return ask.ask.ToolResult(), nil
		}
		c.settle(ctx)
		if result == nil && err != nil {
			result = failure(err)
		}
		outcome := "ok"
		if result.IsError {
			outcome = core.KindOf(err).String()
		}
		s.stats.called(tool.Name, outcome, time.Since(begin))
		s.log.InfoContext(ctx, "tool", "name", tool.Name, "result", outcome, "ms", time.Since(begin).Milliseconds(), "session", c.session.id, "owner", c.who.Owner)
		return result, nil
	}
}

// call is one tool call (or one read of a resource) and who makes it.
type call struct {
	server  *Server
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

func (s *Server) call(ctx context.Context, request mcp.CallToolRequest) *call {
	who := identityFrom(ctx)
	session := s.sessions.of(ctx, who)
	return &call{server: s, who: who, session: session, service: s.serviceFor(who, session.id), request: request}
}

// The labels that say whose a sandbox is and that it was launched here.
const (
	ownerLabel   = "sb.mcp.owner"
	sessionLabel = "sb.mcp.session"
)

// serviceFor is the service as one caller sees it.
func (s *Server) serviceFor(who Identity, session string) *service.Service {
	scope := service.Scope{
		Actor: "mcp/" + session, NamePrefix: s.opts.NamePrefix, MaxSandboxes: s.opts.MaxSandboxes,
		Counted: map[string]string{ownerLabel: who.label()}, Policy: s.opts.Policy,
	}
	if who.Isolated {
		scope.Labels = map[string]string{ownerLabel: who.label()}
		scope.NamePrefix += who.Owner + "-"
		scope.VolumePrefix = who.Owner + "-"
	}
	if who.MaxSandboxes > 0 && (scope.MaxSandboxes == 0 || who.MaxSandboxes < scope.MaxSandboxes) {
		scope.MaxSandboxes = who.MaxSandboxes
	}
	return s.service.Within(scope)
}

// resolve finds the sandbox that an argument names, and knows its secrets then: what cannot be kept out of its output is not shown.
func (c *call) resolve(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, err := c.find(ctx, ref)
	if err != nil {
		return sb, err
	}
	if err := c.server.secrets.know(ctx, c.service, sb); err != nil {
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
		prefix := c.server.opts.NamePrefix
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
	_ = c.server.mcp.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
		"progressToken": meta.ProgressToken, "progress": sent, "message": message,
	})
}

// settleTimeout bounds how long a result waits for the notifications before it.
const settleTimeout = time.Second

// settle waits until the notifications of this call are with the client, so that none comes after the result. A way sees to
// that by itself. Of a session that is mcp-go's, nobody but its transport takes notifications, each when it has written the one
// before, so one more that is taken says that all others were written; whether it is written itself does not matter.
func (c *call) settle(ctx context.Context) {
	session := server.ClientSessionFromContext(ctx)
	if c.sent == 0 || session == nil {
		return
	}
	if _, ordered := session.(*way); ordered {
		return
	}
	c.progress(ctx, "done")
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for len(session.NotificationChannel()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// randomText returns text that nobody can guess.
func randomText() string { return rand.Text() }
