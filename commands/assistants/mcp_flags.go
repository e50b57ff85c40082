package assistants

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// mcpFlags are the flags of mcp that need parsing before they become options.
type mcpFlags struct {
	onDisconnect string
	softDeadline cli.DurationValue
	lease        cli.DurationValue
	maxTimeout   cli.DurationValue
	maxMemory    cli.BytesValue
	networks     []string
	// transport is set before Register if the command has only that one.
	transport   string
	maxBody     cli.BytesValue
	passEnv     []string
	passThrough []string
}

// Register adds the flags to a command. One with a single transport has no flags for other uses.
func (f *mcpFlags) Register(app *cli.App, cmd *cobra.Command, opts *MCPOptions) {
	flags := cmd.Flags()
	flags.SortFlags = false
	server := &opts.Run.Options
	f.softDeadline, f.lease = cli.DurationValue(45*time.Second), cli.DurationValue(15*time.Minute)

	flags.StringSliceVar(
		&server.Toolsets, "toolsets", nil,
		"serve these `SETS` of tools: default, all, sandboxes, exec, files, transfer, packages, lifecycle, state, network, "+
			"stores, links (default default)",
	)
	flags.StringSliceVar(&server.Tools, "tools", nil, "serve these additional `TOOLS`")
	flags.StringSliceVar(&server.Exclude, "exclude-tools", nil, "leave out these `TOOLS`")
	flags.BoolVar(&server.NoPictures, "no-pictures", false, "replace pictures in results by a text")
	flags.BoolVar(&server.ReadOnly, "read-only", false, "serve no tool that changes anything")
	if f.transport == "" {
		flags.BoolVar(&opts.ListTools, "list-tools", false, "print the tools with their sizes in tokens, and serve nothing")
		cli.JSONFlag(cmd, &opts.JSON, "name, title, toolset, read_only, tokens; with --list-tools")
	}
	flags.StringVar(
		&server.Compat, "compat", "",
		"serve the tool names and parameters of another `SYSTEM` instead: mcp4modal, docker-sandbox-server, mcp-sandbox, "+
			"code-sandbox-mcp",
	)
	flags.Var(
		&f.softDeadline, "soft-deadline",
		"answer after this `TIME` while a command keeps running; must be below the client's own limit",
	)
	flags.IntVar(&server.Budget, "max-output", 8000, "`CHARACTERS` of output in one reply")

	flags.StringVar(&server.Policy.Provider, "provider", "", "launch only on this provider (`NAME`)")
	flags.StringVar(&server.Policy.Template, "template", "", "launch only from this template (`NAME`)")
	flags.StringSliceVar(&server.Policy.Images, "images", nil, "launch only from these images (`NAMES`)")
	flags.StringSliceVar(&server.Policy.GPUs, "gpus", nil, "allow only these GPU `TYPES`; none allows no GPU")
	flags.StringSliceVar(
		&f.networks, "networks", nil,
		"allow only these network `MODES`: none, all, allow, internal; the first is the default",
	)
	flags.Var(&f.maxTimeout, "max-timeout", "largest and default lifetime of a sandbox")
	flags.Float64Var(&server.Policy.MaxCPU, "max-cpu", 0, "largest and default number of `CORES` of a sandbox")
	flags.Var(&f.maxMemory, "max-memory", "largest and default memory of a sandbox")
	flags.IntVar(&server.MaxSandboxes, "max-sandboxes", 10, "limit of live `SANDBOXES` of one owner; 0 is no limit")
	flags.StringSliceVar(
		&f.passEnv, "pass-env", nil,
		"give every sandbox the set variables `NAMES` of this environment, as secrets (comma separated, repeatable)",
	)
	// The name of the flag in code-sandbox-mcp.
	flags.StringSliceVar(&f.passThrough, "pass-through-env", nil, "")
	_ = flags.MarkHidden("pass-through-env")
	flags.StringVar(&server.NamePrefix, "name-prefix", "mcp-", "start the names of sandboxes with `TEXT`")
	flags.StringVar(
		&f.onDisconnect, "on-disconnect", string(setup.Lease),
		"action on sandboxes whose client is gone: `lease`, terminate or detach",
	)
	flags.Var(&f.lease, "lease", "lifetime of sandboxes after their client is gone, with --on-disconnect lease")
	flags.StringArrayVar(
		&server.AllowPaths, "allow-path", nil,
		"allow push and pull to use `DIR` of this machine, and sandboxes to mount directories in it (repeatable); "+
			"push and pull may also use the client's roots",
	)
	flags.BoolVar(&server.NoElicit, "no-confirm", false, "never ask the user through the client")

	web := &server.HTTP
	if f.transport == "" {
		flags.StringVar(
			&f.transport, "transport", string(setup.Stdio), "transport for clients: `stdio`, streamable-http (or http), or sse",
		)
		cli.Complete(cmd, "transport", cli.Fixed(setup.Transports()...))
	}
	flags.StringVar(&web.Host, "host", "127.0.0.1", "listen on `ADDRESS` (also MCP_HOST)")
	flags.IntVar(&web.Port, "port", 8000, "listen on `PORT`; 0 chooses a free one (also MCP_PORT)")
	flags.StringVar(&web.TLSCert, "tls-cert", "", "serve HTTPS with the certificate in `FILE` (PEM)")
	flags.StringVar(&web.TLSKey, "tls-key", "", "private key of the certificate, in `FILE` (PEM)")
	flags.StringVar(
		&web.PublicURL, "public-url", "",
		"`URL` of the server for clients, without a path (default: the listening address)",
	)
	flags.StringSliceVar(&web.AllowHosts, "allow-host", nil, "serve requests for these other host `NAMES` (repeatable)")
	flags.StringSliceVar(
		&web.AllowOrigins, "allow-origin", nil, "serve requests from these other web `ORIGINS` (repeatable)",
	)
	flags.BoolVar(
		&web.NoAuth, "no-auth", false, "serve every user and program of this machine without a key; on loopback only",
	)
	flags.StringVar(&web.Issuer, "oauth-issuer", "", "accept tokens (JWT) of the OAuth issuer at `URL`")
	flags.StringVar(
		&web.Audience, "oauth-audience", "", "accept tokens with the audience `TEXT` (default: the server's URL of /mcp)",
	)
	flags.Var(&f.maxBody, "max-body", "largest request (default 64MiB)")
	flags.Float64Var(&web.Rate, "rate-limit", 50, "limit of `REQUESTS` per second of one owner; negative is no limit")
	flags.IntVar(&web.MaxConnections, "max-connections", 1024, "limit of concurrent `CONNECTIONS`")

	flags.StringVar(&opts.LogFile, "log-file", "", "append the log to `FILE` instead of stderr")
	flags.StringVar(&opts.LogLevel, "log-level", "warn", "log `LEVEL` and above: debug, info, warn, error")
	flags.BoolVar(&opts.LogJSON, "log-json", false, "log as JSON")

	cli.Complete(cmd, "compat", cli.Fixed(setup.Compats()...))
	cli.Complete(cmd, "provider", app.CompleteProviders)
	cli.Complete(cmd, "template", app.CompleteTemplates)
	cli.Complete(cmd, "toolsets", cli.Fixed(setup.Toolsets()...))
	cli.Complete(cmd, "on-disconnect", cli.Fixed(string(setup.Lease), string(setup.Terminate), string(setup.Detach)))
	cli.Complete(
		cmd, "networks",
		cli.Fixed(string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow), string(core.NetworkInternal)),
	)
	cli.Complete(cmd, "log-level", cli.Fixed("debug", "info", "warn", "error"))
}

// apply turns flags into options.
func (f *mcpFlags) apply(cmd *cobra.Command, opts *MCPOptions) error {
	server := &opts.Run.Options
	switch mode := setup.OnDisconnect(f.onDisconnect); mode {
	case setup.Lease, setup.Terminate, setup.Detach:
		server.OnDisconnect = mode
	default:
		return cli.Usagef(cmd, "--on-disconnect %q: expected lease, terminate or detach", f.onDisconnect)
	}
	for _, name := range f.networks {
		switch mode := core.NetworkMode(name); mode {
		case core.NetworkNone, core.NetworkAll, core.NetworkAllow, core.NetworkInternal:
			server.Policy.Networks = append(server.Policy.Networks, mode)
		case core.NetworkDefault:
		default:
			return cli.Usagef(cmd, "--networks %q: expected none, all, allow or internal", name)
		}
	}
	if server.MaxSandboxes < 0 || server.Budget < 1 || f.softDeadline <= 0 || f.lease <= 0 {
		return cli.Usagef(cmd, "--max-sandboxes, --max-output, --soft-deadline and --lease cannot be negative or zero")
	}
	server.SoftDeadline, server.Lease = time.Duration(f.softDeadline), time.Duration(f.lease)
	server.Policy.MaxTimeout, server.Policy.MaxMemory = core.Duration(f.maxTimeout), core.Bytes(f.maxMemory)
	server.Policy.NoHostPaths = true
	for _, dir := range server.AllowPaths {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return cli.Usagef(cmd, "--allow-path %q: %v", dir, err)
		}
		server.Policy.HostPaths = append(server.Policy.HostPaths, absolute)
	}
	var err error
	if server.Secrets, err = (&cli.EnvFlags{PassEnv: slices.Concat(f.passEnv, f.passThrough)}).ReadSecrets(
		opts.App.LookupEnv, opts.App.Streams,
	); err != nil {
		return err
	}
	if err := checkPolicy(opts.App, server); err != nil {
		return err
	}
	if err := applyImages(opts.App, cmd, server); err != nil {
		return err
	}
	if err := applyTools(opts.App, cmd, server); err != nil {
		return err
	}
	return f.applyTransport(opts.App, cmd, server)
}

// checkPolicy returns the errors that every launch would return, before a client calls one.
func checkPolicy(app *cli.App, server *setup.Options) error {
	policy := server.Policy
	if err := core.ValidateName("--name-prefix", server.NamePrefix+"x"); err != nil {
		return err
	}
	if err := (core.Spec{
		CPU: policy.MaxCPU, Memory: policy.MaxMemory, Timeout: policy.MaxTimeout,
	}).Validate(); err != nil {
		return err
	}
	if policy.Template != "" {
		if err := core.ValidateName("--template", policy.Template); err != nil {
			return err // a name is no path
		}
		paths, err := app.Paths()
		if err != nil {
			return err
		}
		dir := cli.TemplateDir(paths)
		if _, found, err := cli.TemplatesIn(dir, app.LookupEnv)(policy.Template); err != nil {
			return err
		} else if !found {
			return core.Errorf(core.KindUsage, "mcp", policy.Template, "there is no template %q", policy.Template).
				WithHint("templates are spec files in %s", dir)
		}
	}
	if policy.Provider == "" {
		return nil
	}
	service, err := app.Service()
	if err != nil {
		return err
	}
	_, err = service.Providers.Capabilities(policy.Provider)
	return err
}

// applyImages sets the image for code of each language, from the configuration and from variables that other systems
// use.
func applyImages(app *cli.App, cmd *cobra.Command, server *setup.Options) error {
	config, err := app.Config()
	if err != nil {
		return err
	}
	server.Images = config.Images.ByLanguage()
	image, hasImage := app.LookupEnv("CONTAINER_IMAGE")
	language, hasLanguage := app.LookupEnv("CONTAINER_LANGUAGE")
	switch {
	case !hasImage && !hasLanguage:
		return nil
	case image == "" || language == "":
		return cli.Usagef(cmd, "CONTAINER_IMAGE and CONTAINER_LANGUAGE belong together")
	case !slices.Contains([]string{"python", "javascript", "bash"}, language):
		return cli.Usagef(cmd, "CONTAINER_LANGUAGE %q: expected python, javascript or bash", language)
	}
	server.Images[language] = image
	if server.Compat == setup.CodeSandboxMCP { // both of its tools use the image
		server.Images["python"], server.Images["javascript"] = image, image
	}
	return nil
}

// applyTools selects tools by the configuration, where no flag does.
func applyTools(app *cli.App, cmd *cobra.Command, server *setup.Options) error {
	config, err := app.Config()
	if err != nil {
		return err
	}
	names := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	changed := cmd.Flags().Changed
	if !changed("toolsets") && !changed("tools") {
		server.Toolsets, server.Tools = names(config.MCP.Toolsets), names(config.MCP.Tools)
	}
	if !changed("exclude-tools") {
		server.Exclude = names(config.MCP.ExcludedTools)
	}
	if !changed("read-only") {
		server.ReadOnly = config.MCP.Mode == "read-only"
	}
	if !changed("no-pictures") {
		server.NoPictures = config.MCP.Pictures == "disabled"
	}
	return nil
}

// applyTransport reads where clients connect, from flags and from the variables that peers have.
func (f *mcpFlags) applyTransport(app *cli.App, cmd *cobra.Command, server *setup.Options) error {
	server.Transport = setup.Transport(f.transport)
	if f.transport == "http" { // as some clients call it
		server.Transport = setup.StreamableHTTP
	}
	switch server.Transport {
	case setup.Stdio:
		server.UseRoots = true
		return nil
	case setup.StreamableHTTP, setup.SSE:
	default:
		return cli.Usagef(cmd, "--transport %q: expected one of %s", f.transport, strings.Join(setup.Transports(), ", "))
	}
	web := &server.HTTP
	if host, ok := app.LookupEnv("MCP_HOST"); ok && !cmd.Flags().Changed("host") {
		web.Host = host
	}
	if port, ok := app.LookupEnv("MCP_PORT"); ok && !cmd.Flags().Changed("port") {
		number, err := strconv.Atoi(port)
		if err != nil {
			return cli.Usagef(cmd, "MCP_PORT %q is not a port", port)
		}
		web.Port = number
	}
	if web.Port < 0 || web.Port > 65535 {
		return cli.Usagef(cmd, "--port %d is not a port", web.Port)
	}
	if (web.TLSCert == "") != (web.TLSKey == "") {
		return cli.Usagef(cmd, "--tls-cert and --tls-key belong together")
	}
	if web.MaxConnections < 1 {
		return cli.Usagef(cmd, "--max-connections must be at least 1")
	}
	web.MaxBody = int64(f.maxBody)
	var err error
	if web.KeysFile, err = keysFile(app); err != nil {
		return err
	}
	web.LocalKeyFile, err = localKeyFile(app)
	return err
}
