package assistants

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// MCPOptions are the options of mcp.
type MCPOptions struct {
	App      *cli.App
	Run      setup.Run
	LogFile  string
	LogLevel string
	LogJSON  bool
	// ListTools prints the tools instead of serving them, as a table or as JSON.
	ListTools, JSON bool
}

// NewMCP makes "sb mcp".
func NewMCP(app *cli.App) *cobra.Command {
	opts := &MCPOptions{App: app}
	flags := &mcpFlags{}
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve sandboxes to AI assistants over MCP",
		Long: "Serve your sandboxes to an AI assistant as tools, resources and prompts of the Model Context\n" +
			"Protocol. Over stdio (the default) the assistant starts sb; over HTTP one server serves many\n" +
			"clients, and each request needs a key.",
		Example: "  sb mcp\n" +
			"  sb mcp --toolsets default,lifecycle --allow-path ~/project\n" +
			"  sb mcp --read-only --list-tools\n" +
			"  sb mcp --transport streamable-http --port 8000\n" +
			"  sb mcp --images python:3.12 --gpus none --max-timeout 1h --max-sandboxes 3",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.apply(cmd, opts); err != nil {
				return err
			}
			if opts.JSON && !opts.ListTools {
				return cli.Usagef(cmd, "--json needs --list-tools")
			}
			return runMCP(cmd.Context(), opts)
		},
	}
	flags.Register(app, cmd, opts)
	cmd.AddCommand(NewMCPInstall(app), NewMCPUninstall(app))
	return cmd
}

func runMCP(ctx context.Context, opts *MCPOptions) (err error) {
	app := opts.App
	if app.ServeMCP == nil {
		return becomeMCP(app)
	}
	if opts.ListTools {
		return listTools(opts)
	}
	service, err := app.Service()
	if err != nil {
		return err
	}
	log, closeLog, err := opts.logger()
	if err != nil {
		return err
	}
	defer closeLog()
	run := opts.Run
	run.Service, run.Log, run.Version = service, log, app.Build.Complete().Version
	run.In, run.Out, run.Err = app.Streams.In, app.Streams.Out, app.Streams.Err
	return app.ServeMCP(ctx, run)
}

// listTools prints the tools that the server would serve.
func listTools(opts *MCPOptions) error {
	list, err := opts.App.ListTools(opts.Run.Options)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.List(opts.App.Streams.Out, list)
	}
	table := opts.App.Table("TOOL", "TOOLSET", "TOKENS", "CHANGES", "TITLE")
	tokens := 0
	for _, tool := range list {
		changes := "yes"
		if tool.ReadOnly {
			changes = "no"
		}
		table.Row(tool.Name, tool.Toolset, strconv.Itoa(tool.Tokens), changes, tool.Title)
		tokens += tool.Tokens
	}
	table.Row("total", "", strconv.Itoa(tokens), "", "")
	return table.Write(opts.App.Streams.Out)
}

// becomeMCP replaces this process by sb-mcp. The protocol's packages take longer to start than most commands run, so sb
// does not link them.
func becomeMCP(app *cli.App) error {
	const name = "sb-mcp"
	var tried []string
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		tried = append(tried, filepath.Join(filepath.Dir(self), name))
	}
	if found, err := exec.LookPath(name); err == nil {
		tried = append(tried, found)
	}
	for _, program := range tried {
		if _, err := os.Stat(program); err != nil {
			continue
		}
		return core.Errorf(core.KindUnavailable, "mcp", program, "it cannot be started: %w", app.Become(program))
	}
	return core.Errorf(core.KindUnavailable, "mcp", "", "sb's helper %s is missing", name).
		WithHint("install it beside sb: CGO_ENABLED=0 go install ./cmd/...")
}

// logger makes the server's log: to stderr, or appended to a file.
func (o *MCPOptions) logger() (log *slog.Logger, closeLog func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.LogLevel)); err != nil {
		return nil, nil, core.Errorf(
			core.KindUsage, "mcp", "", "--log-level %q: expected debug, info, warn or error", o.LogLevel,
		)
	}
	to, closeLog := o.App.Streams.Err, func() {}
	if o.LogFile != "" {
		f, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, core.Errorf(core.KindUsage, "mcp", o.LogFile, "the log cannot be written: %w", err)
		}
		to, closeLog = f, func() { _ = f.Close() }
	}
	handlerOptions := &slog.HandlerOptions{Level: level}
	if o.LogJSON {
		return slog.New(slog.NewJSONHandler(to, handlerOptions)), closeLog, nil
	}
	return slog.New(slog.NewTextHandler(to, handlerOptions)), closeLog, nil
}
