package files

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/core/transfer"
)

// CopyOptions are the options of cp, push and pull.
type CopyOptions struct {
	App       *cli.App
	From      []transfer.Endpoint
	To        transfer.Endpoint
	Exclude   []string
	GitIgnore bool
	// IncludeGit is transfer.Request.IncludeGit.
	IncludeGit bool
	JSON       bool
	// shown returns an endpoint as the user named it. Nil is Endpoint.String.
	shown func(transfer.Endpoint) string
}

// Register adds the flags that all copies share.
func (o *CopyOptions) Register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(
		&o.Exclude, "exclude", "x", nil, "skip paths that match a .gitignore `PATTERN` (repeatable)",
	)
	cmd.Flags().BoolVar(
		&o.GitIgnore, "gitignore", false, "skip .git and the paths that .gitignore files of the copied tree name",
	)
	cli.JSONFlag(cmd, &o.JSON, "an array of source, destination, files, bytes, warnings")
}

func (o *CopyOptions) registerIncludeGit(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.IncludeGit, "include-git", false,
		"replace an existing .git, too; Git runs programs that are named there")
}

// NewCp makes "sb cp".
func NewCp(app *cli.App) *cobra.Command {
	opts := &CopyOptions{App: app}
	cmd := &cobra.Command{
		Use:   "cp SOURCE... TARGET",
		Short: "Copy files between this machine and sandboxes",
		Long: "Copy files between this machine and sandboxes, or from one sandbox to another. SANDBOX:PATH is a\n" +
			"path in a sandbox, relative to its workdir; \"-\" is stdin or stdout.",
		Example: "  sb cp src dev:/app\n  sb cp dev:/app/out.csv .\n  sb cp dev:/data test:/data\n  echo hello | sb cp - " +
			"dev:/root/hello",
		Args: cli.AtLeast("SOURCE", "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, arg := range args {
				o, err := ParseOperand(arg)
				if err != nil {
					return err
				}
				if i == len(args)-1 {
					opts.To = o.endpoint()
				} else {
					opts.From = append(opts.From, o.endpoint())
				}
			}
			return runCopy(cmd.Context(), opts)
		},
	}
	cmd.ValidArgsFunction = app.CompleteCopy
	opts.Register(cmd)
	opts.registerIncludeGit(cmd)
	return cmd
}

func (o Operand) endpoint() transfer.Endpoint {
	return transfer.Endpoint{Sandbox: o.Sandbox, Path: o.Path}
}

func runCopy(ctx context.Context, opts *CopyOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	var sources []transfer.Endpoint
	for _, from := range opts.From {
		expanded, err := transfer.Expand(ctx, svc.Files, from)
		if err != nil {
			return err
		}
		sources = append(sources, expanded...)
	}
	if len(sources) > 1 && !isDirectory(ctx, svc, opts.To) {
		return core.Errorf(
			core.KindConflict, "cp", opts.To.String(), "several sources need a target that is an existing directory",
		).
			WithHint("a sandbox and a path in it are one word: SANDBOX:PATH")
	}
	shown := opts.shown
	if shown == nil {
		shown = transfer.Endpoint.String
	}
	results := []transfer.Result{}
	var failed error
	for _, from := range sources {
		report, stop := opts.App.TransferBar(shown(from), !opts.JSON)
		result, err := transfer.Copy(ctx, svc.Files, transfer.Request{
			From: from, To: opts.To, Exclude: opts.Exclude, GitIgnore: opts.GitIgnore, IncludeGit: opts.IncludeGit,
			In: opts.App.Streams.In, Out: opts.App.Streams.Out, Progress: report,
		})
		stop()
		result.Source, result.Destination = shown(from), shown(opts.To)
		for _, warning := range result.Warnings {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: %s: %s\n", output.Clean(result.Source), output.Clean(warning))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			break
		}
		results = append(results, result)
	}
	if opts.JSON {
		return errors.Join(failed, output.JSON(opts.App.Streams.Out, results))
	}
	for _, r := range results {
		if opts.App.Streams.ErrTTY() {
			_, _ = fmt.Fprintf(
				opts.App.Streams.Err, "%s -> %s: %s, %s\n", output.Clean(r.Source), output.Clean(r.Destination),
				output.Count(r.Files, "file", "files"), core.Bytes(r.Bytes),
			)
		}
	}
	return failed
}

func isDirectory(ctx context.Context, svc *service.Service, to transfer.Endpoint) bool {
	if to.Sandbox == "" {
		info, err := os.Stat(to.Path)
		return err == nil && info.IsDir()
	}
	_, err := svc.Files.ReadDir(ctx, to.Sandbox, to.Path)
	return err == nil
}
