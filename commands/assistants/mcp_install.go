package assistants

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/clients"
)

// MCPInstallOptions are the options of mcp install and mcp uninstall.
type MCPInstallOptions struct {
	App       *cli.App
	Clients   []string
	Name      string
	Project   string
	Args      []string
	URL       string
	Uninstall bool
	Print     bool
	DryRun    bool
	JSON      bool
}

// NewMCPInstall makes "sb mcp install".
func NewMCPInstall(app *cli.App) *cobra.Command {
	opts := &MCPInstallOptions{App: app}
	cmd := &cobra.Command{
		Use:   "install [flags] --client CLIENT [-- FLAGS...]",
		Short: "Add sb to an assistant's configuration",
		Long: "Add sb to an assistant's configuration, so that the assistant starts \"sb mcp\". Other settings and\n" +
			"comments are kept, the previous file is saved beside it, and a project's file has no paths of this machine.",
		Example: "  sb mcp install --client claude-code\n" +
			"  sb mcp install --client cursor --project . -- --allow-path .\n" +
			"  sb mcp install --client vscode --print\n" +
			"  sb mcp install --client codex --dry-run\n" +
			"  sb mcp install --client cursor --url http://127.0.0.1:8000/mcp",
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return cli.Usagef(cmd, "%s takes no argument %q; flags of sb mcp come after --", cmd.CommandPath(), args[0])
			}
			opts.Args = args
			if err := opts.Check(cmd); err != nil {
				return err
			}
			return runMCPInstall(cmd.Context(), opts)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	opts.Register(cmd)
	cmd.Flags().StringVar(&opts.URL, "url", "", "connect to your server at `URL` with your local key, which the file "+
		"then contains")
	cmd.Flags().BoolVar(&opts.Print, "print", false, "print the configuration and write nothing")
	return cmd
}

// Register adds the flags of the installation.
func (o *MCPInstallOptions) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	names := strings.Join(clients.Names(), ", ")
	flags.StringSliceVar(&o.Clients, "client", nil, "`CLIENT` to configure (repeatable): "+names)
	flags.StringVar(&o.Name, "name", "sb", "`NAME` of the server in the configuration")
	flags.StringVar(&o.Project, "project", "", "configure the project in `DIR` instead of the user")
	flags.BoolVar(&o.DryRun, "dry-run", false, "show the changes and make none")
	cli.Complete(cmd, "client", cli.Fixed(clients.Names()...))
	_ = cmd.MarkFlagDirname("project")
	cli.JSONFlag(cmd, &o.JSON, "client, file, changed, backup")
}

// Check returns an error if the options do not name the configuration to change.
func (o *MCPInstallOptions) Check(cmd *cobra.Command) error {
	if len(o.Clients) == 0 {
		return cli.Usagef(cmd, "%s needs --client, with one of %s", cmd.CommandPath(), strings.Join(clients.Names(), ", "))
	}
	if o.URL == "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path == "" {
		return cli.Usagef(cmd, "--url %q is not a URL such as http://127.0.0.1:8000/mcp", o.URL)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && !ip.IsLoopback() {
		return cli.Usagef(
			cmd,
			"--url %q is not on this machine, where the local key is valid; create a key there with \"sb key create OWNER\"",
			o.URL,
		)
	}
	if len(o.Args) > 0 {
		return cli.Usagef(cmd, "flags after -- are for a server that the client starts, not for the one at --url")
	}
	if o.Project != "" {
		return cli.Usagef(cmd, "--project and --url exclude each other: everyone with the project would get your key")
	}
	return nil
}

func runMCPInstall(_ context.Context, opts *MCPInstallOptions) error {
	server, place, err := opts.server()
	if err != nil {
		return err
	}
	out := opts.App.Streams.Out
	changes := []clients.Change{}
	for _, name := range opts.Clients {
		client, err := clients.Find(name)
		if err != nil {
			return err
		}
		file, err := client.File(place, opts.Project)
		if err != nil {
			return err
		}
		if opts.Print {
			entry, err := client.Entry(server)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(opts.App.Streams.Err, "for %s, in %s:\n", client.Title, file); err != nil {
				return err
			}
			if _, err := out.Write(entry); err != nil {
				return err
			}
			continue
		}
		var change clients.Change
		if opts.Uninstall {
			change, err = client.Uninstall(file, opts.Name, opts.DryRun)
		} else {
			change, err = client.Install(file, server, opts.DryRun)
		}
		if err != nil {
			return err
		}
		changes = append(changes, change)
		if !opts.JSON {
			if err := opts.Tell(client, change); err != nil {
				return err
			}
		}
	}
	if opts.JSON && !opts.Print {
		return output.JSON(out, changes)
	}
	return nil
}

// Tell prints the change of a file.
func (o *MCPInstallOptions) Tell(client clients.Client, change clients.Change) error {
	verb, state := "was added to", "already has sb"
	if o.Uninstall {
		verb, state = "was removed from", "does not have sb"
	}
	if o.DryRun {
		verb = strings.Replace(verb, "was", "would be", 1)
	}
	text := change.File + " " + state
	if change.Changed {
		text = o.Name + " " + verb + " " + change.File
	}
	if change.Backup != "" {
		text += " (before: " + change.Backup + ")"
	}
	made := cli.Made{Op: "mcp install", ID: change.File, Fact: text, Text: text}
	if change.Changed && !o.DryRun {
		made.Next = "restart " + client.Title
		made.Text += "; " + made.Next
	}
	return o.App.Tell(made, false)
}

// needed lists the variables that sb reads and that clients do not pass on to the servers that they start.
func needed() []string {
	return []string{
		"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "SB_CONFIG", "SB_LOCAL_RUNTIME", "SB_DOCKER_HOST",
		"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
	}
}

// server returns the command that starts this program, for a client's configuration. It has the whole path, because
// desktop programs have no PATH, and the variables that lead to the user's sandboxes. A project's file is for other
// machines, too, so it has neither.
func (o *MCPInstallOptions) server() (clients.Server, clients.Place, error) {
	if err := core.ValidateName("name", o.Name); err != nil {
		return clients.Server{}, clients.Place{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return clients.Server{}, clients.Place{}, core.Errorf(
			core.KindInternal, "mcp", "", "this program cannot be found: %w", err,
		)
	}
	if filepath.Base(self) == "sb-mcp" { // sb replaces itself with sb-mcp for some commands
		self = filepath.Join(filepath.Dir(self), "sb")
	}
	paths, err := o.App.Paths()
	if err != nil {
		return clients.Server{}, clients.Place{}, err
	}
	home, _ := o.App.LookupEnv("HOME")
	if home == "" {
		home, err = os.UserHomeDir()
	}
	config, set := o.App.LookupEnv("XDG_CONFIG_HOME")
	if !set || !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	where := clients.Place{OS: runtime.GOOS, Home: home, Config: config}
	if o.URL != "" && err == nil {
		key, err := localKey(o.App)
		return clients.Server{Name: o.Name, URL: o.URL, Key: key}, where, err
	}
	server := clients.Server{Name: o.Name, Command: self, Args: append([]string{"mcp"}, o.Args...)}
	if o.Project != "" {
		server.Command = "sb"
		if o.App.ConfigFile != "" {
			server.Args = append([]string{"--config", o.App.ConfigFile}, server.Args...)
		}
		return server, where, err
	}
	if o.App.ConfigFile != "" {
		server.Args = append([]string{"--config", paths.Config}, server.Args...)
	}
	for _, name := range needed() {
		if value, _ := o.App.LookupEnv(name); value != "" {
			if server.Env == nil {
				server.Env = map[string]string{}
			}
			server.Env[name] = value
		}
	}
	return server, where, err
}
