package sandboxes

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// InspectOptions are the options of inspect.
type InspectOptions struct {
	App  *cli.App
	Refs []string
}

// NewInspect makes "sb inspect".
func NewInspect(app *cli.App) *cobra.Command {
	opts := &InspectOptions{App: app}
	cmd := &cobra.Command{
		Use:   "inspect SANDBOX...",
		Short: "Show every detail of sandboxes as JSON",
		Long: "Print a JSON array with the details of each sandbox. The spec includes defaults, but no values of " +
			"secrets.\n\n" +
			"FIELDS\n" +
			"  id, name, provider, app, state, reason, message, image, image_id, root_format, labels,\n" +
			"  spec, created, started, ended, expires, last_active, exit_code, ports (port, address), cost, lease;\n" +
			"  if the provider reports them: denials (refused connections), tunnels (public addresses)",
		Example:           "  sb inspect dev\n  sb inspect dev | jq -r '.[0].ports[].address'",
		Args:              cli.AtLeast("SANDBOX"),
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Refs = args
			return runInspect(cmd.Context(), opts)
		},
	}
	var always bool
	cli.JSONFlag(cmd, &always, "the default; accepted as in every command")
	return cmd
}

func runInspect(ctx context.Context, opts *InspectOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	var boxes []inspected
	var failed []error
	for _, ref := range opts.Refs {
		box, err := svc.Sandboxes.Resolve(ctx, ref)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		boxes = append(boxes, inspected{box, denied(ctx, svc, box), tunnelled(ctx, svc, box)})
	}
	if err := output.List(opts.App.Streams.Out, boxes); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// inspected is a sandbox with the details that only running ones have.
type inspected struct {
	core.Sandbox
	Denials []core.Denial `json:"denials,omitempty"`
	Tunnels []core.Tunnel `json:"tunnels,omitempty"`
}

// denied returns the connections that a running sandbox's network policy refused. Without that capability it returns
// none.
func denied(ctx context.Context, svc *service.Service, box core.Sandbox) []core.Denial {
	if caps, err := svc.Providers.Capabilities(box.Provider); box.State != core.StateRunning || err != nil ||
		!caps.Can(core.CapDenials) {
		return nil
	}
	denials, err := svc.Policy.Denials(ctx, box.Ref())
	if err != nil {
		return nil
	}
	return denials
}

// tunnelled returns the public addresses of a running sandbox's ports, for providers that publish them.
func tunnelled(ctx context.Context, svc *service.Service, box core.Sandbox) []core.Tunnel {
	caps, err := svc.Providers.Capabilities(box.Provider)
	if box.State != core.StateRunning || len(box.Spec.Ports) == 0 || err != nil || !caps.Can(core.CapTunnels) {
		return nil
	}
	tunnels, err := svc.Ports.Tunnels(ctx, box.Ref())
	if err != nil {
		return nil
	}
	return tunnels
}
