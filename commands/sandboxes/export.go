package sandboxes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// NewExport makes "sb export", the group of commands that export a sandbox.
func NewExport(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "export",
		Short:   "Export a sandbox in the format of other tools",
		Long:    "Export a sandbox, so that other tools can build it elsewhere.",
		Example: "  sb export dockerfile dev -o image && docker build image",
	}, NewExportDockerfile(app))
}

// ExportDockerfileOptions are the options of export dockerfile.
type ExportDockerfileOptions struct {
	App    *cli.App
	Ref    string
	Dir    string
	Replay bool
}

// NewExportDockerfile makes "sb export dockerfile".
func NewExportDockerfile(app *cli.App) *cobra.Command {
	opts := &ExportDockerfileOptions{App: app}
	cmd := &cobra.Command{
		Use:   "dockerfile SANDBOX",
		Short: "Write a Dockerfile that makes an image with a sandbox's files",
		Long: "Write a directory with a Dockerfile and the files that differ from the sandbox's image. The sandbox's\n" +
			"commands are comments in it, or steps of the build with --replay.",
		Example: "  sb export dockerfile dev -o image && docker build image\n" +
			"  sb export dockerfile dev --replay",
		Args:              cli.Between([]string{"SANDBOX"}),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return runExportDockerfile(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Dir, "output", "o", "", "write the Dockerfile and its files to this directory")
	cmd.Flags().BoolVar(&opts.Replay, "replay", false, "repeat the commands that succeeded; without -o print only that")
	return cmd
}

func runExportDockerfile(ctx context.Context, opts *ExportDockerfileOptions) error {
	if opts.Dir == "" && !opts.Replay {
		return core.Errorf(core.KindUsage, "export", opts.Ref, "a Dockerfile needs a directory for its files").
			WithHint("sb export dockerfile %s -o DIR, or --replay for the commands alone", opts.Ref)
	}
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Dir == "" {
		made, err := svc.Sandboxes.ExportDockerfile(ctx, opts.Ref, service.DockerfileOptions{Replay: true})
		if err != nil {
			return err
		}
		_, err = io.WriteString(opts.App.Streams.Out, made.Text)
		return err
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return core.Wrap("export", opts.Dir, err)
	}
	if err := replaceable(filepath.Join(opts.Dir, "Dockerfile")); err != nil {
		return err
	}
	archive, err := os.CreateTemp(opts.Dir, "."+service.DockerfileFiles+".*")
	if err != nil {
		return core.Wrap("export", opts.Dir, err)
	}
	defer func() { _ = os.Remove(archive.Name()) }() // it has its final name after a success
	made, err := svc.Sandboxes.ExportDockerfile(
		ctx, opts.Ref, service.DockerfileOptions{Replay: opts.Replay, Files: archive},
	)
	if err = errors.Join(err, archive.Close()); err != nil {
		return err
	}
	files := filepath.Join(opts.Dir, service.DockerfileFiles)
	if made.Files {
		err = os.Rename(archive.Name(), files)
	} else if err = os.Remove(files); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(opts.Dir, "Dockerfile"), []byte(made.Text), 0o644)
	}
	return core.Wrap("export", opts.Dir, err)
}

// replaceable returns an error if file exists and is no earlier export.
func replaceable(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.HasPrefix(string(text), service.DockerfileMark) {
		return nil
	}
	if err != nil {
		return core.Wrap("export", file, err)
	}
	return core.Errorf(core.KindConflict, "export", file, "it exists, and sb did not write it").
		WithHint("choose another directory")
}
