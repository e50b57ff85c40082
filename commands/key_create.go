package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/mcp/keys"
)

// KeyCreateOptions are what key create works with.
type KeyCreateOptions struct {
	App  *App
	Key  keys.Key
	TTL  time.Duration
	JSON bool
}

// NewKeyCreate makes "sb key create".
func NewKeyCreate(app *App, runF func(context.Context, *KeyCreateOptions) error) *cobra.Command {
	opts := &KeyCreateOptions{App: app}
	var scopes []string
	var ttl durationValue
	cmd := &cobra.Command{
		Use:   "create [flags] OWNER",
		Short: "Make an API key",
		Long: "Make an API key and print it: it is shown this once. Clients send it as \"Authorization: Bearer KEY\".\n" +
			"Keys of the same OWNER see the same sandboxes; nobody else's." + exitStatusHelp,
		Example: "  sb key create alice\n" +
			"  sb key create --scope read --expires 720h dashboard\n" +
			"  sb key create --max-sandboxes 3 --rate 10 guest",
		Args: exactly("OWNER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key.Owner, opts.TTL = args[0], time.Duration(ttl)
			for _, scope := range scopes {
				opts.Key.Scope = append(opts.Key.Scope, keys.Scope(scope))
			}
			if opts.Key.MaxSandboxes < 0 || opts.Key.Rate < 0 {
				return usagef(cmd, "--max-sandboxes and --rate cannot be negative")
			}
			return orRun(runF, runKeyCreate)(cmd.Context(), opts)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: `all` (the default), read (tools that change nothing), metrics (repeatable)")
	cmd.Flags().Var(&ttl, "expires", "how long it is valid, such as 12h or 720h (default: until it is revoked)")
	cmd.Flags().IntVar(&opts.Key.MaxSandboxes, "max-sandboxes", 0, "most live `SANDBOXES` (default: the server's bound)")
	cmd.Flags().Float64Var(&opts.Key.Rate, "rate", 0, "most `REQUESTS` a second (default: the server's bound)")
	complete(cmd, "scope", fixed(keys.Scopes()...))
	jsonFlag(cmd, &opts.JSON, "id, owner, scope, expires, key")
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
	store, err := opts.App.keys()
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
	if opts.JSON {
		report := reportKey(key, opts.App.Now())
		report.Key = secret
		return output.JSON(opts.App.Streams.Out, report)
	}
	if _, err := fmt.Fprintln(opts.App.Streams.Out, secret); err != nil {
		return err
	}
	_, err = fmt.Fprintf(opts.App.Streams.Err, "this is the only time that the key is shown; revoke it with: sb key revoke %s\n", key.ID)
	return err
}
