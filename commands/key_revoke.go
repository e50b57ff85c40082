package commands

import (
	"context"

	"github.com/spf13/cobra"
)

// KeyRevokeOptions are what key revoke works with.
type KeyRevokeOptions struct {
	App  *App
	IDs  []string
	JSON bool
}

// NewKeyRevoke makes "sb key revoke".
func NewKeyRevoke(app *App, runF func(context.Context, *KeyRevokeOptions) error) *cobra.Command {
	opts := &KeyRevokeOptions{App: app}
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Make API keys useless",
		Long: "Make API keys useless, for ever. Servers that run notice with the next request; links that a key\n" +
			"made end with it. The sandboxes of its owner stay." + exitStatusHelp,
		Example:           "  sb key revoke k3j5x2aa",
		Args:              atLeast("ID"),
		ValidArgsFunction: app.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			return orRun(runF, runKeyRevoke)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, outcomeFields("revoked"))
	return cmd
}

func runKeyRevoke(_ context.Context, opts *KeyRevokeOptions) error {
	store, err := opts.App.keys()
	if err != nil {
		return err
	}
	return forEachName(opts.App, opts.IDs, "revoked", opts.JSON, func(id string) (string, error) {
		key, err := store.Revoke(id)
		return key.ID, err
	})
}
