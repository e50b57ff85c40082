package assistants

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/mcp/keys"
)

// NewKey makes "sb key".
func NewKey(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "key",
		Example: "  sb key create alice\n  sb key ls\n  sb key revoke k3j5x2aa",
		Short:   "Manage API keys for \"sb mcp\" over HTTP",
		Long: "Create, list and revoke API keys for clients of \"sb mcp\" over HTTP. Each key has an owner and sees\n" +
			"only that owner's sandboxes.",
	}, NewKeyCreate(app), NewKeyLs(app), NewKeyRevoke(app))
}

// openKeys opens the store of API keys.
func openKeys(a *cli.App) (*keys.Store, error) {
	path, err := keysFile(a)
	if err != nil {
		return nil, err
	}
	return keys.Open(path), nil
}

func keysFile(a *cli.App) (string, error) {
	paths, err := a.Paths()
	return filepath.Join(paths.State, "keys.json"), err
}

// localKeyFile returns the path of the key that this user's programs use for this user's server.
func localKeyFile(a *cli.App) (string, error) {
	paths, err := a.Paths()
	return filepath.Join(paths.State, "mcp.key"), err
}

// localKey returns that key. It creates a missing key.
func localKey(a *cli.App) (string, error) {
	path, err := localKeyFile(a)
	if err != nil {
		return "", err
	}
	local, err := keys.OpenLocal(path)
	return local.Reveal(), err
}

// completeKeys completes the ids of keys.
func completeKeys(a *cli.App) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		store, err := openKeys(a)
		if err != nil || len(args) > 0 {
			return nil, cli.NoFiles
		}
		all, err := store.List()
		if err != nil {
			return nil, cli.NoFiles
		}
		var ids []string
		for _, key := range all {
			if key.Usable(a.Now()) {
				ids = append(ids, key.ID+"\t"+key.Owner)
			}
		}
		return ids, cli.NoFiles
	}
}

// KeyCreateOptions are the options of key create.
type KeyCreateOptions struct {
	App  *cli.App
	Key  keys.Key
	TTL  time.Duration
	JSON bool
}

// NewKeyCreate makes "sb key create".
func NewKeyCreate(app *cli.App) *cobra.Command {
	opts := &KeyCreateOptions{App: app}
	var scopes []string
	var ttl cli.DurationValue
	cmd := &cobra.Command{
		Use:   "create [flags] OWNER",
		Short: "Create an API key",
		Long: "Create an API key and print it; it is shown only once. Keys with the same OWNER see the same\n" +
			"sandboxes, and no others.",
		Example: "  sb key create alice\n" +
			"  sb key create --scope read --expires 720h dashboard\n" +
			"  sb key create --max-sandboxes 3 --rate 10 guest",
		Args: cli.Exactly("OWNER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key.Owner, opts.TTL = args[0], time.Duration(ttl)
			for _, scope := range scopes {
				opts.Key.Scope = append(opts.Key.Scope, keys.Scope(scope))
			}
			if opts.Key.MaxSandboxes < 0 || opts.Key.Rate < 0 {
				return cli.Usagef(cmd, "--max-sandboxes and --rate cannot be negative")
			}
			return runKeyCreate(cmd.Context(), opts)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringSliceVar(
		&scopes, "scope", nil, "allowed operations: `all` (the default), read (tools that change nothing), metrics "+
			"(repeatable)",
	)
	cmd.Flags().Var(&ttl, "expires", "lifetime of the key, such as 12h or 720h (default: until it is revoked)")
	cmd.Flags().IntVar(&opts.Key.MaxSandboxes, "max-sandboxes", 0, "limit of live `SANDBOXES` (default: the server's)")
	cmd.Flags().Float64Var(&opts.Key.Rate, "rate", 0, "limit of `REQUESTS` per second (default: the server's)")
	cli.Complete(cmd, "scope", cli.Fixed(keys.Scopes()...))
	cli.JSONFlag(cmd, &opts.JSON, "id, owner, scope, expires, key")
	return cmd
}

// keyReport is the JSON of a key.
type keyReport struct {
	ID           string       `json:"id"`
	Owner        string       `json:"owner"`
	Scope        []keys.Scope `json:"scope"`
	State        string       `json:"state"`
	Created      time.Time    `json:"created"`
	Expires      time.Time    `json:"expires,omitzero"`
	MaxSandboxes int          `json:"max_sandboxes,omitempty"`
	Rate         float64      `json:"rate,omitempty"`
	Key          string       `json:"key,omitempty"`
}

func reportKey(key keys.Key, now time.Time) keyReport {
	state := "valid"
	switch {
	case !key.Revoked.IsZero():
		state = "revoked"
	case !key.Usable(now):
		state = "expired"
	}
	return keyReport{
		ID: key.ID, Owner: key.Owner, Scope: key.Scope, State: state, Created: key.Created, Expires: key.Expires,
		MaxSandboxes: key.MaxSandboxes, Rate: key.Rate,
	}
}

func runKeyCreate(_ context.Context, opts *KeyCreateOptions) error {
	store, err := openKeys(opts.App)
	if err != nil {
		return err
	}
	if opts.TTL > 0 {
		opts.Key.Expires = opts.App.Now().Add(opts.TTL).UTC()
	}
	key, secret, err := store.Create(opts.Key)
	if err != nil {
		return err
	}
	report := reportKey(key, opts.App.Now())
	report.Key = secret
	if err := opts.App.Tell(cli.Made{
		Op: "key create", ID: key.ID, Text: secret, Value: report,
		Fact: fmt.Sprintf("the key %s was created", key.ID), Next: fmt.Sprintf("sb key revoke %s revokes it", key.ID),
	}, opts.JSON); err != nil || opts.JSON {
		return err
	}
	_, err = fmt.Fprintf(
		opts.App.Streams.Err, "this is the only time that the key is shown; revoke it with: sb key revoke %s\n", key.ID,
	)
	return err
}

// KeyLsOptions are the options of key ls.
type KeyLsOptions struct {
	App  *cli.App
	All  bool
	JSON bool
}

// NewKeyLs makes "sb key ls".
func NewKeyLs(app *cli.App) *cobra.Command {
	opts := &KeyLsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "List API keys",
		Long:    "List the valid API keys.",
		Example: "  sb key ls\n  sb key ls --all --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runKeyLs(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.All, "all", "a", false, "include revoked and expired keys")
	cli.JSONFlag(cmd, &opts.JSON, "id, owner, scope, state, created, expires, max_sandboxes, rate")
	return cmd
}

func runKeyLs(_ context.Context, opts *KeyLsOptions) error {
	store, err := openKeys(opts.App)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	now := opts.App.Now()
	reports := []keyReport{}
	for _, key := range all {
		if opts.All || key.Usable(now) {
			reports = append(reports, reportKey(key, now))
		}
	}
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, reports)
	}
	table := opts.App.Table("ID", "OWNER", "SCOPE", "STATE", "EXPIRES")
	for _, report := range reports {
		scopes := make([]string, len(report.Scope))
		for i, scope := range report.Scope {
			scopes[i] = string(scope)
		}
		expires := "never"
		if !report.Expires.IsZero() {
			expires = report.Expires.Format(time.DateTime)
		}
		table.Row(report.ID, report.Owner, strings.Join(scopes, ","), report.State, expires)
	}
	return table.Write(opts.App.Streams.Out)
}

// KeyRevokeOptions are the options of key revoke.
type KeyRevokeOptions struct {
	App  *cli.App
	IDs  []string
	JSON bool
}

// NewKeyRevoke makes "sb key revoke".
func NewKeyRevoke(app *cli.App) *cobra.Command {
	opts := &KeyRevokeOptions{App: app}
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke API keys",
		Long: "Revoke API keys permanently; running servers refuse them from the next request on. The owner's\n" +
			"sandboxes remain.",
		Example:           "  sb key revoke k3j5x2aa",
		Args:              cli.AtLeast("ID"),
		ValidArgsFunction: completeKeys(app),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			return runKeyRevoke(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, cli.OutcomeFields("revoked"))
	return cmd
}

func runKeyRevoke(_ context.Context, opts *KeyRevokeOptions) error {
	store, err := openKeys(opts.App)
	if err != nil {
		return err
	}
	return cli.ForEachName(opts.App, opts.IDs, "revoked", opts.JSON, func(id string) (string, error) {
		key, err := store.Revoke(id)
		return key.ID, err
	})
}
