package commands

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// FsLsOptions are what fs ls works with.
type FsLsOptions struct {
	App     *App
	Sandbox string
	Path    string
	JSON    bool
	Quiet   bool
}

// fileFields documents fileReport for --json flags.
const fileFields = "path, type (file, directory, symlink, other), size, mode (as in 0644), mod_time, uid, gid, link"

// NewFsLs makes "sb fs ls".
func NewFsLs(app *App, runF func(context.Context, *FsLsOptions) error) *cobra.Command {
	opts := &FsLsOptions{App: app}
	cmd := &cobra.Command{
		Use:               "ls SANDBOX [PATH]",
		Aliases:           []string{"list"},
		Short:             "List a directory",
		Long:              "List a directory of a sandbox, or the one file that PATH names. Hidden files are listed, too." + exitStatusHelp,
		Example:           "  sb fs ls dev\n  sb fs ls --json dev /var/log",
		Args:              between([]string{"SANDBOX"}, "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], "."
			if len(args) > 1 {
				opts.Path = args[1]
			}
			return orRun(runF, runFsLs)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "an array of "+fileFields)
	quietFlag(cmd, &opts.Quiet, "names")
	return cmd
}

func runFsLs(ctx context.Context, opts *FsLsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	info, err := service.Stat(ctx, opts.Sandbox, opts.Path)
	if err != nil {
		return err
	}
	files := []core.FileInfo{info}
	// Of a link to a directory its entries are listed, as ls does with a trailing slash.
	if info.Mode.IsDir() || info.Link != "" {
		entries, err := service.ReadDir(ctx, opts.Sandbox, opts.Path)
		switch {
		case err == nil:
			files = entries
		case info.Mode.IsDir():
			return err
		}
	}
	out := opts.App.Streams.Out
	switch {
	case opts.JSON:
		reports := make([]fileReport, len(files))
		for i, f := range files {
			reports[i] = reportFile(f)
		}
		return output.List(out, reports)
	case opts.Quiet:
		for _, f := range files {
			if _, err := fmt.Fprintln(out, path.Base(f.Path)); err != nil {
				return err
			}
		}
		return nil
	}
	table := opts.App.table("MODE", "OWNER", "SIZE", "MODIFIED", "NAME")
	for _, f := range files {
		name := path.Base(f.Path)
		if f.Link != "" {
			name += " -> " + f.Link
		}
		table.Row(modeText(f.Mode), strconv.Itoa(f.UID)+":"+strconv.Itoa(f.GID), core.Bytes(f.Size).String(),
			f.ModTime.Local().Format("2006-01-02 15:04"), name)
	}
	return table.Write(out)
}

// modeText is a mode as ls(1) prints it: "lrwxrwxrwx", "drwxrwxrwt". fs.FileMode has letters of its own.
func modeText(mode fs.FileMode) string {
	text := []byte("-" + mode.Perm().String()[1:])
	for _, kind := range []struct {
		bit    fs.FileMode
		letter byte
	}{{fs.ModeDir, 'd'}, {fs.ModeSymlink, 'l'}, {fs.ModeNamedPipe, 'p'}, {fs.ModeSocket, 's'}, {fs.ModeDevice, 'b'}, {fs.ModeCharDevice, 'c'}} {
		if mode&kind.bit != 0 {
			text[0] = kind.letter
		}
	}
	for _, special := range []struct {
		bit    fs.FileMode
		at     int
		letter byte
	}{{fs.ModeSetuid, 3, 's'}, {fs.ModeSetgid, 6, 's'}, {fs.ModeSticky, 9, 't'}} {
		if mode&special.bit == 0 {
			continue
		}
		if text[special.at] == 'x' {
			text[special.at] = special.letter
		} else {
			text[special.at] = special.letter - 'a' + 'A'
		}
	}
	return string(text)
}

// fileReport is the JSON of a file.
type fileReport struct {
	Path    string    `json:"path"`
	Type    string    `json:"type"`
	Size    int64     `json:"size"`
	Mode    string    `json:"mode"`
	ModTime time.Time `json:"mod_time"`
	UID     int       `json:"uid"`
	GID     int       `json:"gid"`
	Link    string    `json:"link,omitempty"`
}

func reportFile(f core.FileInfo) fileReport {
	kind := "other"
	switch {
	case f.Mode.IsRegular():
		kind = "file"
	case f.Mode.IsDir():
		kind = "directory"
	case f.Link != "":
		kind = "symlink"
	}
	return fileReport{
		Path: f.Path, Type: kind, Size: f.Size, Mode: octalMode(f.Mode),
		ModTime: f.ModTime, UID: f.UID, GID: f.GID, Link: f.Link,
	}
}
