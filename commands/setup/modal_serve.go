package setup

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
)

// ModalServeOptions are the options of modal serve.
type ModalServeOptions struct {
	App         *cli.App
	Address     string
	SecretFiles []string
	Latency     time.Duration
	Scheduling  time.Duration
	TokenLife   time.Duration
	Faults      []string
	Proxies     []string
	Buckets     []string
	AnyToken    bool
	EnvFile     string
	// While is the process that the server serves; 0 means no process.
	While int
}

// NewModalServe makes "sb modal serve".
func NewModalServe(app *cli.App) *cobra.Command {
	opts := &ModalServeOptions{App: app}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve Modal's API with local sandboxes",
		Long: "Serve Modal's API on loopback, with sandboxes on this machine, until interrupted. Programs with a\n" +
			"Modal SDK need no account; --env-file has the variables that they read.",
		Example: "  sb modal serve --env-file modal.env\n" +
			"  . ./modal.env && python3 program.py\n" +
			"  sb modal serve --while $$ --fault SandboxCreateV2=RESOURCE_EXHAUSTED,retry-after=2s",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runModalServe(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(
		&opts.Address, "address", "127.0.0.1:0", "listen at `HOST:PORT`, on loopback; port 0 chooses a free one",
	)
	cmd.Flags().BoolVar(
		&opts.AnyToken, "any-token", false, "accept any token, so that every user of this machine can use the server",
	)
	cmd.Flags().StringVar(
		&opts.EnvFile, "env-file", "", "write the variables that clients need to `FILE`, for a shell (default: a file "+
			"that stderr shows)",
	)
	cmd.Flags().StringArrayVar(
		&opts.SecretFiles, "secret-file", nil,
		"create a secret at the start: `NAME=FILE` with KEY=VALUE lines (repeatable)",
	)
	cmd.Flags().StringArrayVar(
		&opts.Buckets, "bucket", nil, "use a directory as a cloud bucket: `NAME=DIR` (repeatable)",
	)
	cmd.Flags().DurationVar(&opts.Latency, "latency", 0, "delay each call by `DURATION`")
	cmd.Flags().DurationVar(
		&opts.Scheduling, "scheduling", 0,
		"queue each sandbox for `DURATION` before it starts",
	)
	cmd.Flags().DurationVar(
		&opts.TokenLife, "token-life", 0, "expire the short-lived tokens of clients after `DURATION`",
	)
	cmd.Flags().StringArrayVar(
		&opts.Faults, "fault", nil,
		"fail the next calls of an RPC: `METHOD=CODE[,times=N][,retry-after=DURATION]` (repeatable)",
	)
	cmd.Flags().StringArrayVar(
		&opts.Proxies, "proxy", nil,
		"offer a Modal proxy `NAME`, which connects from this machine (repeatable)",
	)
	cmd.Flags().IntVar(
		&opts.While, "while", 0, "exit when the process `PID` exits, such as $$ in a script",
	)
	return cmd
}

func runModalServe(ctx context.Context, opts *ModalServeOptions) error {
	app := opts.App
	paths, err := app.Paths()
	if err != nil {
		return err
	}
	config, err := app.Config()
	if err != nil {
		return err
	}
	serve, err := opts.server()
	if err != nil {
		return err
	}
	if opts.While != 0 {
		var stop context.CancelFunc
		if ctx, stop, err = untilGone(ctx, opts.While); err != nil {
			return err
		}
		defer stop()
	}
	report, stop := app.Progress()
	serve.Progress = report
	server, err := providers.ServeModal(ctx, providers.Options{
		StateDir: paths.State, CacheDir: paths.Cache, Runtime: config.Local.Runtime,
		FreezeAfter: time.Duration(config.Local.FreezeAfter), LogLimit: config.Local.LogLimit,
	}, serve)
	stop()
	if err != nil {
		return err
	}
	if file := server.EnvFile(); file != "" {
		_, _ = fmt.Fprintf(app.Streams.Err, "clients need its URL and its token: . %s\n", file)
	}
	if _, err = fmt.Fprintln(app.Streams.Out, server.URL()); err == nil {
		<-ctx.Done()
	}
	if closeErr := server.Close(); err == nil {
		err = closeErr
	}
	return err
}

// server returns the server's options from the flags.
func (opts *ModalServeOptions) server() (serve providers.ModalServerOptions, err error) {
	app := opts.App
	if host, _, err := net.SplitHostPort(opts.Address); err != nil || host != "localhost" && !net.ParseIP(host).
		IsLoopback() {
		return serve, core.Errorf(
			core.KindUsage, "modal.serve", opts.Address, "the address is not on loopback: calls come without TLS",
		).WithHint("use 127.0.0.1:PORT")
	}
	serve = providers.ModalServerOptions{
		Address: opts.Address, Latency: opts.Latency, Scheduling: opts.Scheduling, TokenLife: opts.TokenLife,
		Proxies: opts.Proxies,
		Secrets: map[string]map[string]string{}, Buckets: map[string]string{},
		Logger: slog.New(slog.NewTextHandler(app.Streams.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	serve.TokenID, _ = app.LookupEnv("MODAL_TOKEN_ID")
	serve.TokenSecret, _ = app.LookupEnv("MODAL_TOKEN_SECRET")
	if serve.AnyToken = opts.AnyToken; !serve.AnyToken && (serve.TokenID == "") != (serve.TokenSecret == "") {
		return serve, core.Errorf(
			core.KindUsage, "modal.serve", "", "of MODAL_TOKEN_ID and MODAL_TOKEN_SECRET only one is set",
		).WithHint("set both, or neither")
	}
	if opts.EnvFile != "" {
		if serve.EnvFile, err = filepath.Abs(opts.EnvFile); err != nil {
			return serve, core.Wrap("modal.serve", opts.EnvFile, err)
		}
	}
	for _, text := range opts.Faults {
		fault, err := providers.ParseModalFault(text)
		if err != nil {
			return serve, err
		}
		serve.Faults = append(serve.Faults, fault)
	}
	for _, named := range opts.Buckets {
		name, dir, err := namedPath("--bucket", named)
		if err != nil {
			return serve, err
		}
		if serve.Buckets[name], err = filepath.Abs(dir); err != nil {
			return serve, core.Wrap("modal.serve", dir, err)
		}
	}
	for _, named := range opts.SecretFiles {
		name, path, err := namedPath("--secret-file", named)
		if err != nil {
			return serve, err
		}
		if serve.Secrets[name], err = cli.ReadDotenv("--secret-file", path); err != nil {
			return serve, err
		}
	}
	return serve, nil
}

// untilGone returns a context that ends when a process has.
func untilGone(ctx context.Context, pid int) (context.Context, context.CancelFunc, error) {
	owner := core.CurrentOwner("modal")
	start, there := core.ProcessStart(pid)
	if !there {
		return nil, nil, core.Errorf(core.KindUsage, "modal.serve", strconv.Itoa(pid), "--while: there is no process %d", pid)
	}
	owner.PID, owner.PIDStart = pid, start
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(time.Second / 2)
		defer tick.Stop()
		for !owner.Gone() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	return ctx, func() { cancel(); watching.Wait() }, nil
}

// namedPath reads NAME=PATH.
func namedPath(flag, text string) (name, path string, err error) {
	name, path, _ = strings.Cut(text, "=")
	if name == "" || path == "" {
		return "", "", core.Errorf(core.KindUsage, "modal.serve", text, "%s takes a name and a path: NAME=PATH", flag)
	}
	return name, path, nil
}
