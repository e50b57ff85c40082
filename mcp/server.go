package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/compat"
	"github.com/seed-0724f904/sb/mcp/links"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/rest"
	"github.com/seed-0724f904/sb/mcp/session"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
	"github.com/seed-0724f904/sb/mcp/transport"
)

// Server serves one Service to any number of clients. ServeStdio and Handler are its transports; Close ends it.
type Server struct {
	opts     setup.Options
	service  *service.Service
	log      *slog.Logger
	mcp      *server.MCPServer
	tools    []tools.Tool
	host     *tools.Host
	endpoint *transport.Endpoint
	sessions *session.Table
	links    links.Links
	// subscribed are the resources that clients watch.
	subscribed subscriptions

	ctx    context.Context //nolint:containedctx // background work lives as long as the server
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a server over svc. log may be nil. The caller calls Close, and closes svc after it.
func New(svc *service.Service, log *slog.Logger, opts setup.Options) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts.SoftDeadline = cmp.Or(opts.SoftDeadline, 45*time.Second)
	opts.Budget = cmp.Or(opts.Budget, reply.DefaultBudget)
	opts.NamePrefix = cmp.Or(opts.NamePrefix, "mcp-")
	opts.Lease = cmp.Or(opts.Lease, 15*time.Minute)
	opts.OnDisconnect = cmp.Or(opts.OnDisconnect, setup.Lease)
	chosen, err := toolsFor(opts)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, service: svc, log: log, tools: chosen}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sessions = session.New(session.Options{
		Service: svc, Log: log, Lease: opts.Lease, Terminate: opts.OnDisconnect == setup.Terminate, Context: s.ctx,
		Go: s.wg.Go,
	})
	s.host = &tools.Host{
		Options: opts, Service: svc, Sessions: s.sessions, Links: &s.links, Log: log, Words: wordsFor(opts, chosen),
		Context: s.ctx, Go: s.wg.Go, Changed: s.fileChanged,
	}
	s.mcp = s.protocol()
	// A client may exclude a tool that is not served. Only clients over HTTP select, so others do not wait for the list.
	nameable := sync.OnceValue(func() []tools.Tool { return slices.Concat(chosen, tools.Catalogue()) })
	s.endpoint = &transport.Endpoint{
		Protocol: s.mcp, Options: opts.HTTP, Transport: opts.Transport, Lease: opts.Lease, Log: log, Context: s.ctx,
		Go:             s.wg.Go,
		CheckSelection: func(wanted setup.Selection) error { return tools.Check(nameable(), wanted) },
		Sessions:       s.sessions, RunningCommands: s.host.RunningCommands,
		Files: links.Files{Links: &s.links, Service: s.host.ServiceFor, Changed: s.fileChanged},
	}
	if tools.OverHTTP(opts) && opts.Compat == "" {
		api, err := rest.New(s.host)
		if err != nil {
			return nil, err
		}
		s.endpoint.API, s.endpoint.Open = api, rest.Public()
	}
	s.wg.Go(s.watch)
	s.wg.Go(s.sessions.RenewAll)
	return s, nil
}

// toolsFor returns the tools that the options select.
func toolsFor(opts setup.Options) ([]tools.Tool, error) {
	if opts.Compat != "" {
		return compat.Tools(opts)
	}
	return tools.Select(opts)
}

// wordsFor returns the words of texts about the tools.
func wordsFor(opts setup.Options, chosen []tools.Tool) tools.Words {
	if opts.Compat != "" {
		return compat.Words(opts.Compat)
	}
	return tools.WordsOf(chosen)
}

// Close ends all sessions, settles their sandboxes, stops the background work and waits for it. Commands in sandboxes
// keep running.
func (s *Server) Close() {
	s.sessions.Close()
	s.cancel()
	s.wg.Wait()
}

// protocol makes mcp-go's server with all tools, resources and prompts.
func (s *Server) protocol() *server.MCPServer {
	hooks := &server.Hooks{}
	s.sessions.Hook(hooks)
	s.hookSubscriptions(hooks)
	transport.HookErrors(hooks)
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
		server.WithPromptCompletionProvider(completer{s.host}),
		server.WithResourceCompletionProvider(completer{s.host}),
		server.WithToolFilter(s.permitted),
	)
	for _, tool := range s.tools {
		definition := tool.Definition()
		definition.Description = s.host.Words.Text(definition.Description)
		protocol.AddTool(definition, s.handler(tool))
	}
	s.addResources(protocol)
	s.addPrompts(protocol)
	protocol.AddNotificationHandler(mcp.MethodNotificationRootsListChanged, s.rootsChanged)
	return protocol
}

// permitted removes the tools that change something, if the caller is read-only, and those that the request does not
// want.
func (s *Server) permitted(ctx context.Context, listed []mcp.Tool) []mcp.Tool {
	identity := auth.IdentityFrom(ctx)
	if !identity.ReadOnly && identity.Selection == nil {
		return listed
	}
	wanted := setup.Selection{}
	if identity.Selection != nil {
		wanted = *identity.Selection
	}
	wanted.ReadOnly = wanted.ReadOnly || identity.ReadOnly
	return slices.DeleteFunc(slices.Clone(listed), func(definition mcp.Tool) bool {
		at := slices.IndexFunc(s.tools, func(t tools.Tool) bool { return t.Name == definition.Name })
		tool := tools.Tool{Name: definition.Name}
		if at >= 0 {
			tool = s.tools[at]
		}
		return !tools.Wanted(tool, wanted, tools.OverHTTP(s.opts))
	})
}

// pageSize is the number of entries on a page of a list. All tools fit on one page: some clients do not request the
// next.
const pageSize = 200

// handler adapts a tool to mcp-go.
func (s *Server) handler(tool tools.Tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		begin := time.Now()
		c := s.host.Call(ctx, request)
		c.Session.Enter()
		defer c.Session.Leave()
		arguments := request.Params.RawArguments
		if arguments == nil && request.Params.Arguments != nil {
			arguments, _ = json.Marshal(request.Params.Arguments)
		}
		result, err := tool.Run(ctx, c, arguments)
		if ask, ok := errors.AsType[*tools.InputNeeded](err); ok {
			return ask.Ask.ToolResult(), nil
		}
		flushNotes(ctx, c)
		if result == nil && err != nil {
			result = s.host.Words.Failure(err)
		}
		if s.opts.NoPictures || c.Identity.Selection != nil && c.Identity.Selection.NoPictures {
			withoutPictures(result)
		}
		result = tool.Present(result)
		outcome := "ok"
		if result.IsError {
			outcome = core.KindOf(err).String()
		}
		s.endpoint.Metrics.Called(tool.Name, outcome, time.Since(begin))
		s.log.InfoContext(ctx, "tool", "name", tool.Name, "result", outcome, "ms", time.Since(begin).
			Milliseconds(), "session", c.Session.ID, "owner", c.Identity.Owner)
		return result, nil
	}
}

// withoutPictures replaces the pictures of a result by a text. A link to a picture stays.
func withoutPictures(result *mcp.CallToolResult) {
	for i, content := range result.Content {
		if picture, is := content.(mcp.ImageContent); is {
			size := core.Bytes(base64.StdEncoding.DecodedLen(len(picture.Data)))
			result.Content[i] = mcp.NewTextContent(
				fmt.Sprintf("note: a picture (%s, %s) is left out", picture.MIMEType, size),
			)
		}
	}
}

// settleTimeout bounds how long a result waits for the notifications before it.
const settleTimeout = time.Second

// flushNotes waits until the client has the notifications of this call, so that none follows the result. A
// transport.Way keeps that order without it. In a session of mcp-go, only the transport takes notifications, each after
// it wrote the previous one. Once it takes another, all earlier ones are written. The extra one may be lost.
func flushNotes(ctx context.Context, c *tools.Call) {
	client := server.ClientSessionFromContext(ctx)
	if !c.Notified() || client == nil {
		return
	}
	if _, ordered := client.(*transport.Way); ordered {
		return
	}
	c.SendProgress(ctx, "done")
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for len(client.NotificationChannel()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// rootsChanged drops a session's roots. The next use requests them again.
func (s *Server) rootsChanged(ctx context.Context, _ mcp.JSONRPCNotification) {
	s.sessions.Of(ctx, auth.IdentityFrom(ctx)).SetRoots(nil)
}

// ServeStdio serves one client on two streams until in ends or ctx does.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.endpoint.ServeStdio(ctx, in, out)
}

// NewWeb makes the HTTP side of a server that listens at addr. The caller calls Shutdown.
func (s *Server) NewWeb(addr net.Addr) (*transport.Web, error) { return s.endpoint.NewWeb(addr) }

// ServeWeb listens and serves until ctx ends, then gives requests time to end. It writes the URL to out.
func (s *Server) ServeWeb(ctx context.Context, out io.Writer) error {
	return s.endpoint.ServeWeb(ctx, out)
}
