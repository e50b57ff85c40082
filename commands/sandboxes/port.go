package sandboxes

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
)

// PortOptions are the options of port.
type PortOptions struct {
	App  *cli.App
	Ref  string
	JSON bool
}

// NewPort makes "sb port".
func NewPort(app *cli.App) *cobra.Command {
	opts := &PortOptions{App: app}
	cmd := &cobra.Command{
		Use: "port SANDBOX", Aliases: []string{"ports"}, Short: "Show a sandbox's published ports",
		Long: "Print the published ports of a sandbox (\"sb launch --port\") and their addresses.\n" +
			"For other ports use \"sb port forward\".",
		Example: "  sb port dev\n  curl \"$(sb port dev --json | jq -r '.[0].address')\"\n  sb port forward dev 8080",
		Args:    cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return runPort(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "an array of port, protocol, address, url")
	cmd.AddCommand(NewPortForward(app))
	return cmd
}

func runPort(ctx context.Context, opts *PortOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	tunnels, err := service.Ports.Tunnels(ctx, opts.Ref)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.List(opts.App.Streams.Out, tunnels)
	}
	table := opts.App.Table("PORT", "PROTOCOL", "ADDRESS", "URL")
	for _, t := range tunnels {
		table.Row(strconv.Itoa(t.Port), string(t.Protocol), t.Address, t.URL)
	}
	return table.Write(opts.App.Streams.Out)
}
