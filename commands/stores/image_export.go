package stores

import (
	"archive/tar"
	"bufio"
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
)

// ImageExportOptions are the options of image export.
type ImageExportOptions struct {
	cli.StoreFlags

	App                *cli.App
	Image, Out, Format string
}

// NewImageExport makes "sb image export".
func NewImageExport(app *cli.App) *cobra.Command {
	opts := &ImageExportOptions{App: app}
	cmd := &cobra.Command{
		Use: "export IMAGE", Short: "Write an image to a file",
		Long: "Write an image as an archive that \"sb image import\", \"docker load\" and \"podman load\" read.\n" +
			"An image of this machine has all its files in one layer, and a snapshot its changes in a second one.",
		Example: "  sb image export app:1 -o app.tar\n  sb image export app:1 -o oci:app\n  sb image export --format docker " +
			"app:1 | docker load",
		Args: cli.Exactly("IMAGE"), ValidArgsFunction: cli.FirstArg(app.CompleteStored(imageNames)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Image = args[0]
			return runImageExport(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(
		&opts.Out, "output", "o", "", "write to the file `FILE`, or to a new directory oci:DIR (default: stdout)",
	)
	cmd.Flags().StringVar(&opts.Format, "format", string(core.ImageOCI), "the archive's `FORMAT`: oci or docker")
	cli.Complete(cmd, "format", cobra.FixedCompletions(
		[]cobra.Completion{string(core.ImageOCI), string(core.ImageDocker)}, cobra.ShellCompDirectiveNoFileComp,
	))
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	return cmd
}

func runImageExport(ctx context.Context, opts *ImageExportOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, stop := opts.App.Progress()
	defer stop()
	write := func(to io.Writer) error {
		return svc.Stores.ExportImage(
			ctx, opts.Provider, opts.Image, core.ImageFormat(opts.Format), to, report,
		)
	}
	dir, isDir := strings.CutPrefix(opts.Out, "oci:")
	switch {
	case isDir && opts.Format != string(core.ImageOCI):
		return core.Invalid("format", "oci:DIR needs the format oci")
	case isDir:
		return exportDir(dir, write)
	case opts.Out != "" && opts.Out != "-":
		return exportFile(opts.Out, write)
	case opts.App.Streams.OutTTY():
		return core.Errorf(core.KindUsage, "image export", opts.Image, "the terminal shows no archives").
			WithHint("write it to a file: -o FILE")
	}
	out := bufio.NewWriterSize(opts.App.Streams.Out, 1<<20)
	return errors.Join(write(out), out.Flush())
}

// exportFile replaces a file after the whole archive is written.
func exportFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return core.Wrap("image export", name, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	out := bufio.NewWriterSize(f, 1<<20)
	if err = write(out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	return core.Wrap("image export", name, err)
}

// exportDir writes an OCI layout into a new directory.
func exportDir(dir string, write func(io.Writer) error) (err error) {
	if dir == "" {
		return core.Invalid("output", "oci: needs a directory after it")
	}
	if _, err := os.Lstat(dir); err == nil {
		return core.Errorf(core.KindConflict, "image export", dir, "there is a %s already", dir).
			WithHint("choose another directory, or remove that one")
	}
	temporary, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), "."+filepath.Base(dir)+".*")
	if err != nil {
		return core.Wrap("image export", dir, err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temporary)
		}
	}()
	out, in := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(in)
		_ = in.CloseWithError(err)
		written <- err
	}()
	err = unpackLayout(temporary, out)
	_ = out.CloseWithError(err)
	// An error of the export is the cause of the other.
	if writeErr := <-written; writeErr != nil {
		err = writeErr
	}
	if err == nil {
		err = os.Chmod(temporary, 0o755) //nolint:gosec // as the user's umask would have it
	}
	if err == nil {
		err = os.Rename(temporary, dir)
	}
	return core.Wrap("image export", dir, err)
}

// unpackLayout writes the files of an archive below a directory. Only regular files are taken.
func unpackLayout(dir string, archive io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	in := tar.NewReader(archive)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, archive)
			return err
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err := root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in) //nolint:gosec // the archive is as large as the image
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// ImageImportOptions are the options of image import.
type ImageImportOptions struct {
	cli.StoreFlags

	App        *cli.App
	File, Name string
}

// NewImageImport makes "sb image import".
func NewImageImport(app *cli.App) *cobra.Command {
	opts := &ImageImportOptions{App: app}
	cmd := &cobra.Command{
		Use: "import FILE [NAME]", Short: "Store the image in a file",
		Long: "Store the image in an archive of \"sb image export\" or \"docker save\", an OCI archive, or an OCI " +
			"directory.\nThe file - is stdin.",
		Example: "  sb image import app.tar\n  docker save app:1 | sb image import --provider local - app:1",
		Args:    cli.Between([]string{"FILE"}, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.File = args[0]
			if len(args) > 1 {
				opts.Name = args[1]
			}
			return runImageImport(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cli.JSONFlag(cmd, &opts.JSON, "id, names, provider, created, size")
	cli.QuietFlag(cmd, &opts.Quiet, "the id, without progress")
	return cmd
}

func runImageImport(ctx context.Context, opts *ImageImportOptions) (err error) {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	file := opts.File
	if file == "-" {
		if file, err = spooled(opts.App.Streams.In); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(file)) }()
	} else if file, err = filepath.Abs(file); err != nil {
		return err
	}
	report, stop := opts.App.Progress()
	if opts.Quiet {
		report = nil
	}
	made, err := svc.Stores.ImportImage(ctx, opts.Provider, file, opts.Name, report)
	stop()
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "image", made.ID, made)
}

// spooled copies stdin to a temporary file: an image is not read in the order of its archive.
func spooled(in io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "sb-image-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
