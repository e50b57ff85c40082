package commands

import (
	"context"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// FsWriteOptions are what fs write works with.
type FsWriteOptions struct {
	App     *App
	Sandbox string
	Path    string
	Write   core.WriteOptions
}

// NewFsWrite makes "sb fs write".
func NewFsWrite(app *App, runF func(context.Context, *FsWriteOptions) error) *cobra.Command {
	opts := &FsWriteOptions{App: app}
	var mode string
	cmd := &cobra.Command{
		Use:   "write SANDBOX PATH",
		Short: "Write stdin to a file",
		Long: "Write stdin to a file of a sandbox. The file is replaced at once: readers see the old content or\n" +
			"the new, and a write that fails changes nothing. With --append it is extended instead." + exitStatusHelp,
		Example: "  echo 'hello' | sb fs write dev /tmp/hello\n" +
			"  sb fs write --parents --mode 0755 dev bin/tool < tool",
		Args:              exactly("SANDBOX", "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], args[1]
			if mode != "" {
				bits, err := strconv.ParseUint(mode, 8, 12)
				if err != nil || bits > 0o777 || bits == 0 {
					return usagef(cmd, "--mode %s is not an octal mode from 0001 to 0777", mode)
				}
				opts.Write.Mode = fs.FileMode(bits)
			}
			if app.Streams.InTTY() {
				return usagef(cmd, "%s reads stdin, which is a terminal; redirect a file or a pipe", cmd.CommandPath())
			}
			return orRun(runF, runFsWrite)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Write.Append, "append", "a", false, "add to the file instead of replacing it")
	cmd.Flags().BoolVar(&opts.Write.Parents, "parents", false, "make missing directories")
	cmd.Flags().StringVar(&mode, "mode", "", "permissions in `OCTAL` (default: those of the file, or 0644)")
	return cmd
}

func runFsWrite(ctx context.Context, opts *FsWriteOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	return service.WriteFile(ctx, opts.Sandbox, opts.Path, opts.App.Streams.In, opts.Write)
}
