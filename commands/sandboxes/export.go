package sandboxes

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core/service"
)

// NewExport makes "sb export", the group of commands that export a sandbox.
func NewExport(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "export",
		Short:   "Export the steps that made a sandbox",
		Long:    "Export the steps that made a sandbox, so that you can build it elsewhere.",
		Example: "  sb export dockerfile dev > Dockerfile",
	}, NewExportDockerfile(app))
}

// ExportDockerfileOptions are the options of export dockerfile.
type ExportDockerfileOptions struct {
	App *cli.App
	Ref string
}

// NewExportDockerfile makes "sb export dockerfile".
func NewExportDockerfile(app *cli.App) *cobra.Command {
	opts := &ExportDockerfileOptions{App: app}
	return &cobra.Command{
		Use:   "dockerfile SANDBOX",
		Short: "Print a Dockerfile that repeats a sandbox's commands",
		Long: "Print a Dockerfile that starts from the sandbox's image and repeats the commands that succeeded in it.\n" +
			"The commands come from its journal and the audit log. Comments list the rest: pushed and written files,\n" +
			"failed commands, secrets, and files that differ from the image.",
		Example:           "  sb export dockerfile dev > Dockerfile",
		Args:              cli.Between([]string{"SANDBOX"}),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return runExportDockerfile(cmd.Context(), opts)
		},
	}
}

func runExportDockerfile(ctx context.Context, opts *ExportDockerfileOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	text, err := svc.Sandboxes.ExportDockerfile(ctx, opts.Ref, service.DockerfileOptions{})
	if err != nil {
		return err
	}
	_, err = io.WriteString(opts.App.Streams.Out, text)
	return err
}
