package setup

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
)

// VersionOptions are the options of version.
type VersionOptions struct {
	App  *cli.App
	JSON bool
}

// NewVersion makes "sb version".
func NewVersion(app *cli.App) *cobra.Command {
	opts := &VersionOptions{App: app}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version of sb, its commit, and the Go version that built it.",
		Example: "  sb version\n  sb version --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return RunVersion(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "an object: version, commit, date, go, platform")
	return cmd
}

// RunVersion prints the version.
func RunVersion(_ context.Context, opts *VersionOptions) error {
	build := opts.App.Build.Complete()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, struct {
			cli.Build
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{build, runtime.Version(), platform})
	}
	line := "sb " + build.Version
	if build.Commit != "" {
		line += fmt.Sprintf(" (%.12s)", build.Commit)
	}
	_, err := fmt.Fprintf(opts.App.Streams.Out, "%s %s %s\n", line, runtime.Version(), platform)
	return err
}
