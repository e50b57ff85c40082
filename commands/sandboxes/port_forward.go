package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// PortForwardOptions are the options of port forward.
type PortForwardOptions struct {
	App     *cli.App
	Ref     string
	Ports   []core.Port
	Address string
}

// NewPortForward makes "sb port forward".
func NewPortForward(app *cli.App) *cobra.Command {
	opts := &PortForwardOptions{App: app}
	cmd := &cobra.Command{
		Use: "forward SANDBOX [LOCAL:]PORT...", Short: "Forward local ports to a sandbox",
		Long: "Listen on this machine and forward connections to TCP ports of a sandbox, published or not. LOCAL is\n" +
			"the port here (default: the same port; 0: a free port).",
		Example: "  sb port forward dev 8080\n  sb port forward dev 0:8888 5433:5432",
		Args:    cli.AtLeast("SANDBOX", "PORT"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			for _, text := range args[1:] {
				port, err := ForwardPort(text)
				if err != nil {
					return err
				}
				opts.Ports = append(opts.Ports, port)
			}
			return RunPortForward(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(
		&opts.Address, "address", "127.0.0.1", "listen on `IP`; an address beyond loopback is open to the network",
	)
	return cmd
}

// ForwardPort reads [LOCAL:]PORT.
func ForwardPort(text string) (core.Port, error) {
	port, err := cli.ParsePort(text)
	if err != nil || port.Protocol != core.PortDefault {
		return port, core.Errorf(core.KindUsage, "parse", text, "%s is not a port", text).WithHint("write PORT or LOCAL:PORT")
	}
	if _, err := strconv.Atoi(text); err == nil {
		port.Host = port.Sandbox
	}
	return port, nil
}

// RunPortForward forwards ports until the context or the sandbox ends.
func RunPortForward(ctx context.Context, opts *PortForwardOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	box, err := svc.Sandboxes.Resolve(ctx, opts.Ref)
	if err != nil {
		return err
	}
	if caps, err := svc.Providers.Capabilities(box.Provider); err != nil || !caps.Can(core.CapPortForward) {
		// Fail before the command listens; the operation would return the same error.
		_, err := svc.Ports.Dial(ctx, box.Ref(), opts.Ports[0].Sandbox)
		return err
	}
	var listeners []net.Listener
	for _, port := range opts.Ports {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(opts.Address, strconv.Itoa(port.Host)))
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return core.Errorf(
				core.KindConflict, "port forward", "", "port %d of this machine cannot be used: %w", port.Host, err,
			).
				WithHint("choose another: sb port forward %s 0:%d", opts.Ref, port.Sandbox)
		}
		listeners = append(listeners, listener)
	}
	return opts.forward(ctx, svc, box, listeners)
}

// forward serves all listeners until ctx ends, or one of them fails.
func (o *PortForwardOptions) forward(
	ctx context.Context, svc *service.Service, box core.Sandbox, listeners []net.Listener,
) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var printing sync.Mutex
	failed := make([]error, len(listeners))
	var all sync.WaitGroup
	for i, listener := range listeners {
		inside := o.Ports[i].Sandbox
		if _, err := fmt.Fprintln(o.App.Streams.Out, listener.Addr()); err != nil {
			stop()
		}
		all.Go(func() {
			defer stop()
			failed[i] = svc.Ports.Forward(inner, box.Ref(), inside, listener, func(err error) {
				printing.Lock()
				defer printing.Unlock()
				_, _ = fmt.Fprintf(o.App.Streams.Err, "warning: port %d: %s\n", inside, output.Clean(err.Error()))
			})
		})
	}
	var ended error
	if caps, err := svc.Providers.Capabilities(box.Provider); err == nil && caps.Can(core.CapWait) {
		all.Go(func() {
			last, err := svc.Sandboxes.Wait(inner, box.Ref())
			if err != nil {
				return // inner ended; or the end is not known, and connections report it
			}
			ended = core.Errorf(
				core.KindConflict, "port forward", box.Name, "the sandbox is %s: no more connections are possible",
				cli.StateText(last),
			)
			stop()
		})
	}
	all.Wait()
	return errors.Join(append(failed, ctx.Err(), ended)...)
}
