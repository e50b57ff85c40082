package sandboxes

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// TunnelOptions are the options of tunnel.
type TunnelOptions struct {
	App     *cli.App
	Ref     string
	Connect core.ConnectOptions
	JSON    bool
}

// NewTunnel makes "sb tunnel".
func NewTunnel(app *cli.App) *cobra.Command {
	opts := &TunnelOptions{App: app}
	cmd := &cobra.Command{
		Use: "tunnel SANDBOX", Short: "Create a token for HTTP access to a sandbox",
		Long: "Create a token for HTTP requests to a port of a cloud sandbox, and print the URL and the token on\n" +
			"two lines. Send the token as \"Authorization: Bearer TOKEN\"; it is shown only once.",
		Example: "  sb tunnel web --port 8000\n  sb tunnel web --json | jq -r .token",
		Args:    cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return runTunnel(cmd.Context(), opts)
		},
	}
	cmd.Flags().IntVar(
		&opts.Connect.Port, "port", 0, "`PORT` in the sandbox (default: the provider's, 8080 at Modal)",
	)
	cmd.Flags().StringVar(
		&opts.Connect.Metadata, "metadata", "", "send `TEXT` in a header of each request",
	)
	cli.JSONFlag(cmd, &opts.JSON, "url, token")
	return cmd
}

func runTunnel(ctx context.Context, opts *TunnelOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.Ports.ConnectToken(ctx, opts.Ref, opts.Connect)
	if err != nil {
		return err
	}
	token := made.Token.Reveal()
	return opts.App.Tell(cli.Made{
		Op: "tunnel", ID: opts.Ref, Text: made.URL + "\n" + token,
		Value: struct {
			URL   string `json:"url"`
			Token string `json:"token"`
		}{made.URL, token},
		Fact: fmt.Sprintf("a token for %s was created", made.URL),
		Next: fmt.Sprintf("sb tunnel %s creates another", opts.Ref),
	}, opts.JSON)
}
