package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// PolicySetOptions are what policy set works with.
type PolicySetOptions struct {
	App     *App
	Ref     string
	Network core.Network
	JSON    bool
}

// NewPolicySet makes "sb policy set".
func NewPolicySet(app *App) *cobra.Command {
	opts := &PolicySetOptions{App: app}
	var mode string
	cmd := &cobra.Command{
		Use: "set SANDBOX (--network MODE | --allow HOSTS)", Short: "Change where a running sandbox may connect to",
		Long:    "Replace the network policy of a sandbox that runs and print the new one." + exitStatusHelp,
		Example: "  sb policy set dev --network none\n  sb policy set dev --allow pypi.org,files.pythonhosted.org",
		Args:    exactly("SANDBOX"), ValidArgsFunction: firstArg(app.completeSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			opts.Network.Mode = core.NetworkMode(mode)
			if mode == "" && cmd.Flags().Changed("allow") {
				opts.Network.Mode = core.NetworkAllow
			}
			if opts.Network.Mode == core.NetworkDefault {
				return usagef(cmd, "%s needs --network or --allow", cmd.CommandPath())
			}
			return runPolicySet(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&mode, "network", "", "network `MODE`: none, all, allow or internal")
	cmd.Flags().StringSliceVar(&opts.Network.Allow, "allow", nil, "`HOSTS` it may reach, domains and CIDRs; means --network allow (repeatable)")
	complete(cmd, "network", fixed(string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow), string(core.NetworkInternal)))
	jsonFlag(cmd, &opts.JSON, "mode, allow")
	return cmd
}

func runPolicySet(ctx context.Context, opts *PolicySetOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	changed, err := service.SetNetwork(ctx, opts.Ref, opts.Network)
	if err != nil {
		return err
	}
	now := changed.Spec.Network
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, now)
	}
	_, err = fmt.Fprintln(opts.App.Streams.Out, strings.TrimSpace(string(now.Mode)+" "+strings.Join(now.Allow, " ")))
	return err
}
