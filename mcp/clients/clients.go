package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Client is one program that uses MCP servers.
type Client struct {
	// Name is the client's name in sb's commands.
	Name string
	// Title is the client's official name.
	Title string
	// user and project are the paths of its files, for a user and for a project; "" where there is none.
	user    func(Place) string
	project string
	format  format
	// keys lead to the object that has the servers by name.
	keys []string
	// entry returns the configuration of a server that the client starts.
	entry func(Server) any
	// remote returns the configuration of a server that already runs; nil if the client supports none. Client.table writes
	// it in TOML.
	remote func(Server) any
}

// Server describes an MCP server to a client.
type Server struct {
	// Name is the key in the client's configuration.
	Name string
	// Command and Args start the server. Env has the variables that it needs besides those that every client passes on.
	Command string
	Args    []string
	Env     map[string]string
	// URL and Key are set, instead of Command, for a server that already runs.
	URL, Key string
}

// value returns the server's entry in the client's file. KindUnsupported: the client cannot use a server that already
// runs.
func (c Client) value(s Server) (any, error) {
	switch {
	case s.URL == "":
		return c.entry(s), nil
	case c.remote == nil:
		return nil, core.Errorf(
			core.KindUnsupported, "mcp", "", "%s supports only servers that it starts", c.Title,
		).WithHint("leave --url out")
	}
	return c.remote(s), nil
}

// Place describes the machine that has a client's files.
type Place struct {
	// OS is a value of runtime.GOOS.
	OS string
	// Home is the user's home directory, Config where programs keep their configuration (XDG_CONFIG_HOME and the like).
	Home, Config string
}

type format int

const (
	formatJSON format = iota // with comments and trailing commas, which some clients allow
	formatTOML
	formatYAML
)

// All lists the known clients.
func All() []Client {
	// with adds the environment, if there is one.
	with := func(entry map[string]any, name string, s Server) map[string]any {
		if len(s.Env) > 0 {
			entry[name] = s.Env
		}
		return entry
	}
	plain := func(s Server) any {
		return with(map[string]any{"command": s.Command, "args": s.Args}, "env", s)
	}
	typed := func(s Server) any {
		return with(map[string]any{"type": "stdio", "command": s.Command, "args": s.Args}, "env", s)
	}
	// headers carry the key. The name of the URL differs between clients.
	headers := func(s Server) map[string]string { return map[string]string{"Authorization": "Bearer " + s.Key} }
	at := func(url string) func(Server) any {
		return func(s Server) any { return map[string]any{url: s.URL, "headers": headers(s)} }
	}
	atHTTP := func(s Server) any {
		return map[string]any{"type": "http", "url": s.URL, "headers": headers(s)}
	}
	home := func(parts ...string) func(Place) string {
		return func(p Place) string { return filepath.Join(append([]string{p.Home}, parts...)...) }
	}
	// app is a file in the directory that desktop programs have on each system.
	app := func(parts ...string) func(Place) string {
		return func(p Place) string {
			base := p.Config
			if p.OS == "darwin" {
				base = filepath.Join(p.Home, "Library", "Application Support")
			}
			return filepath.Join(append([]string{base}, parts...)...)
		}
	}
	config := func(parts ...string) func(Place) string {
		return func(p Place) string { return filepath.Join(append([]string{p.Config}, parts...)...) }
	}
	servers := []string{"mcpServers"}
	return []Client{
		{
			Name: "claude-code", Title: "Claude Code", user: home(".claude.json"), project: ".mcp.json", keys: servers,
			entry: typed, remote: atHTTP,
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", user: app("Claude", "claude_desktop_config.json"), keys: servers,
			entry: plain,
		},
		{
			Name: "cline", Title: "Cline", user: app(
				"Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json",
			),
			keys: servers, entry: plain, remote: func(s Server) any {
				return map[string]any{"type": "streamableHttp", "url": s.URL, "headers": headers(s)}
			},
		},
		{
			Name: "codex", Title: "Codex", user: home(".codex", "config.toml"),
			project: filepath.Join(".codex", "config.toml"), format: formatTOML,
			keys: []string{"mcp_servers"}, entry: plain, remote: func(s Server) any {
				return map[string]any{"url": s.URL, "http_headers": headers(s)}
			},
		},
		{
			Name: "copilot", Title: "Copilot CLI", user: home(".copilot", "mcp-config.json"), keys: servers,
			entry: func(s Server) any {
				return with(map[string]any{
					"type": "local", "command": s.Command, "args": s.Args, "tools": []string{"*"},
				}, "env", s)
			}, remote: func(s Server) any {
				return map[string]any{"type": "http", "url": s.URL, "headers": headers(s), "tools": []string{"*"}}
			},
		},
		{
			Name: "cursor", Title: "Cursor", user: home(".cursor", "mcp.json"), project: filepath.Join(".cursor", "mcp.json"),
			keys: servers, entry: plain, remote: at("url"),
		},
		{
			Name: "gemini", Title: "Gemini CLI", user: home(".gemini", "settings.json"),
			project: filepath.Join(".gemini", "settings.json"), keys: servers, entry: plain, remote: at("httpUrl"),
		},
		{
			Name: "goose", Title: "Goose", user: config("goose", "config.yaml"), format: formatYAML,
			keys: []string{"extensions"}, entry: func(s Server) any {
				return with(map[string]any{
					"name": s.Name, "type": "stdio", "cmd": s.Command, "args": s.Args, "enabled": true, "timeout": 300,
				}, "envs", s)
			}, remote: func(s Server) any {
				return map[string]any{
					"name": s.Name, "type": "streamable_http", "uri": s.URL, "headers": headers(s), "enabled": true,
					"timeout": 300,
				}
			},
		},
		{
			Name: "opencode", Title: "opencode", user: config("opencode", "opencode.json"), project: "opencode.json",
			keys: []string{"mcp"}, entry: func(s Server) any {
				return with(map[string]any{
					"type": "local", "command": append([]string{s.Command}, s.Args...), "enabled": true,
				}, "environment", s)
			}, remote: func(s Server) any {
				return map[string]any{"type": "remote", "url": s.URL, "headers": headers(s), "enabled": true}
			},
		},
		{
			Name: "vscode", Title: "VS Code", user: app("Code", "User", "mcp.json"),
			project: filepath.Join(".vscode", "mcp.json"), keys: []string{"servers"}, entry: typed, remote: atHTTP,
		},
		{
			Name: "windsurf", Title: "Windsurf", user: home(".codeium", "windsurf", "mcp_config.json"), keys: servers,
			entry: plain, remote: at("serverUrl"),
		},
		{
			Name: "zed", Title: "Zed", user: config("zed", "settings.json"), project: filepath.Join(".zed", "settings.json"),
			keys: []string{"context_servers"}, entry: func(s Server) any {
				return with(map[string]any{"source": "custom", "command": s.Command, "args": s.Args}, "env", s)
			}, remote: at("url"),
		},
	}
}

// Names are the names of all clients.
func Names() []string {
	var names []string
	for _, c := range All() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns a client by its name.
func Find(name string) (Client, error) {
	all := All()
	if at := slices.IndexFunc(all, func(c Client) bool { return c.Name == name }); at >= 0 {
		return all[at], nil
	}
	e := core.Errorf(core.KindUsage, "mcp", "", "there is no client %q", name)
	if near := core.Nearest(name, Names()); near != "" {
		return Client{}, e.WithHint("did you mean %q?", near)
	}
	return Client{}, e.WithHint("the clients are %s; for others use the output of --print", strings.Join(Names(), ", "))
}

// File returns the path of the client's configuration: the user's, or that of the directory project if it is not empty.
func (c Client) File(place Place, project string) (string, error) {
	if project == "" {
		return c.user(place), nil
	}
	if c.project == "" {
		return "", core.Errorf(core.KindUnsupported, "mcp", "", "%s has no configuration of its own for a project", c.Title).
			WithHint("leave --project out")
	}
	return filepath.Join(project, c.project), nil
}
