package commands

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// FsStatOptions are what fs stat works with.
type FsStatOptions struct {
	App     *App
	Sandbox string
	Path    string
	JSON    bool
}

// NewFsStat makes "sb fs stat".
func NewFsStat(app *App, runF func(context.Context, *FsStatOptions) error) *cobra.Command {
	opts := &FsStatOptions{App: app}
	cmd := &cobra.Command{
		Use:               "stat SANDBOX PATH",
		Short:             "Describe a file",
		Long:              "Describe a file of a sandbox. A symbolic link is described itself." + exitStatusHelp,
		Example:           "  sb fs stat dev /etc/hosts\n  sb fs stat --json dev data | jq .size",
		Args:              exactly("SANDBOX", "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], args[1]
			return orRun(runF, runFsStat)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "an object: "+fileFields)
	return cmd
}

func runFsStat(ctx context.Context, opts *FsStatOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	info, err := service.Stat(ctx, opts.Sandbox, opts.Path)
	if err != nil {
		return err
	}
	report := reportFile(info)
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, report)
	}
	table := opts.App.table("FIELD", "VALUE")
	for _, row := range [][2]string{
		{"path", report.Path},
		{"type", report.Type},
		{"size", fmt.Sprintf("%d (%s)", report.Size, core.Bytes(report.Size))},
		{"mode", report.Mode + " (" + modeText(info.Mode) + ")"},
		{"owner", strconv.Itoa(report.UID) + ":" + strconv.Itoa(report.GID)},
		{"modified", report.ModTime.Local().Format(time.RFC3339)},
		{"link", report.Link},
	} {
		if row[1] != "" {
			table.Row(row[0], row[1])
		}
	}
	return table.Write(opts.App.Streams.Out)
}

// octalMode writes permissions as chmod takes them, with the special bits in front.
func octalMode(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return fmt.Sprintf("%04o", bits)
}
