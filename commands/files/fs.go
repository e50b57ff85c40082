package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewFs makes "sb fs", the group of commands for files inside sandboxes.
func NewFs(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "fs",
		Short:   "Read and write files in a sandbox",
		Long:    "Read and write files in a running sandbox, as its user. PATH is relative to the working directory.",
		Example: "  sb fs ls dev /etc\n  sb fs cat dev notes.txt\n  echo hello | sb fs write dev /tmp/hello",
	}, NewFsLs(app), NewFsCat(app), NewFsWrite(app), NewFsMkdir(app), NewFsRm(app), NewFsStat(app),
		NewFsWatch(app))
}

// FsCatOptions are the options of fs cat.
type FsCatOptions struct {
	App     *cli.App
	Sandbox string
	Paths   []string
}

// NewFsCat makes "sb fs cat".
func NewFsCat(app *cli.App) *cobra.Command {
	opts := &FsCatOptions{App: app}
	return &cobra.Command{
		Use:               "cat SANDBOX PATH...",
		Short:             "Print files",
		Long:              "Print the content of files of a sandbox to stdout, unchanged, one after the other.",
		Example:           "  sb fs cat dev /etc/hosts\n  sb fs cat dev plot.png > plot.png",
		Args:              cli.AtLeast("SANDBOX", "PATH"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return runFsCat(cmd.Context(), opts)
		},
	}
}

func runFsCat(ctx context.Context, opts *FsCatOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	for _, path := range opts.Paths {
		if err := catFile(ctx, svc, opts.Sandbox, path, opts.App.Streams.Out); err != nil {
			return err
		}
	}
	return nil
}

func catFile(ctx context.Context, svc *service.Service, sandbox, path string, out io.Writer) error {
	content, err := svc.Files.ReadFile(ctx, sandbox, path)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(out, content)
	return core.Wrap("read", path, err)
}

// FsLsOptions are the options of fs ls.
type FsLsOptions struct {
	App     *cli.App
	Sandbox string
	Path    string
	JSON    bool
	Quiet   bool
}

// fileFields documents fileReport for --json flags.
const fileFields = "path, type (file, directory, symlink, other), size, mode (as in 0644), mod_time, uid, gid, link"

// NewFsLs makes "sb fs ls".
func NewFsLs(app *cli.App) *cobra.Command {
	opts := &FsLsOptions{App: app}
	cmd := &cobra.Command{
		Use:               "ls SANDBOX [PATH]",
		Aliases:           []string{"list"},
		Short:             "List a directory",
		Long:              "List a directory or one file of a sandbox, hidden files included.",
		Example:           "  sb fs ls dev\n  sb fs ls --json dev /var/log",
		Args:              cli.Between([]string{"SANDBOX"}, "PATH"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], "."
			if len(args) > 1 {
				opts.Path = args[1]
			}
			return runFsLs(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "an array of "+fileFields)
	cli.QuietFlag(cmd, &opts.Quiet, "names")
	return cmd
}

func runFsLs(ctx context.Context, opts *FsLsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	info, err := service.Files.Stat(ctx, opts.Sandbox, opts.Path)
	if err != nil {
		return err
	}
	list := []core.FileInfo{info}
	// Of a link to a directory its entries are listed, as ls does with a trailing slash.
	if info.Mode.IsDir() || info.Link != "" {
		entries, err := service.Files.ReadDir(ctx, opts.Sandbox, opts.Path)
		switch {
		case err == nil:
			list = entries
		case info.Mode.IsDir():
			return err
		}
	}
	out := opts.App.Streams.Out
	switch {
	case opts.JSON:
		reports := make([]fileReport, len(list))
		for i, f := range list {
			reports[i] = reportFile(f)
		}
		return output.List(out, reports)
	case opts.Quiet:
		for _, f := range list {
			if _, err := fmt.Fprintln(out, shown(opts.App.Streams, path.Base(f.Path))); err != nil {
				return err
			}
		}
		return nil
	}
	table := opts.App.Table("MODE", "OWNER", "SIZE", "MODIFIED", "NAME")
	for _, f := range list {
		name := path.Base(f.Path)
		if f.Link != "" {
			name += " -> " + f.Link
		}
		table.Row(core.ModeText(f.Mode), strconv.Itoa(f.UID)+":"+strconv.Itoa(f.GID), core.Bytes(f.Size).String(),
			f.ModTime.Local().Format("2006-01-02 15:04"), name)
	}
	return table.Write(out)
}

// shown is a name that the guest chose, as stdout gets it: without control characters on a terminal, unchanged in a
// pipe or a file.
func shown(streams *iostreams.Streams, name string) string {
	if streams.OutTTY() {
		return output.Clean(name)
	}
	return name
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

// pathsCommand makes a command that works on paths of one sandbox.
func pathsCommand(
	app *cli.App,
	cmd cobra.Command,
	work func(ctx context.Context, svc *service.Service, sandbox string, paths []string) error,
) *cobra.Command {
	cmd.Use += " SANDBOX PATH..."
	cmd.Args, cmd.ValidArgsFunction = cli.AtLeast("SANDBOX", "PATH"), app.CompletePath
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		svc, err := app.Service()
		if err != nil {
			return err
		}
		return work(cmd.Context(), svc, args[0], args[1:])
	}
	return &cmd
}

// NewFsMkdir makes "sb fs mkdir".
func NewFsMkdir(app *cli.App) *cobra.Command {
	var parents bool
	cmd := pathsCommand(app, cobra.Command{
		Use: "mkdir", Short: "Create directories", Example: "  sb fs mkdir -p dev /srv/data/in",
		Long: "Create directories in a sandbox. With -p, missing parents are created and existing directories are no error.",
	}, func(ctx context.Context, svc *service.Service, sandbox string, paths []string) error {
		for _, path := range paths {
			if err := svc.Files.Mkdir(ctx, sandbox, path, parents); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "create missing parents; existing directories are no error")
	return cmd
}

// NewFsRm makes "sb fs rm".
func NewFsRm(app *cli.App) *cobra.Command {
	var recursive, force bool
	cmd := pathsCommand(app, cobra.Command{
		Use: "rm", Aliases: []string{"remove"}, Short: "Remove files",
		Long:    "Remove files and empty directories of a sandbox, or whole trees with -r. Links are not followed.",
		Example: "  sb fs rm dev /tmp/hello\n  sb fs rm -r dev build",
	}, func(ctx context.Context, svc *service.Service, sandbox string, paths []string) error {
		if force { // a missing sandbox is still an error
			if _, err := svc.Sandboxes.Resolve(ctx, sandbox); err != nil {
				return err
			}
		}
		var failed []error
		for _, path := range paths {
			err := svc.Files.Remove(ctx, sandbox, path, recursive)
			if err != nil && (!force || !errors.Is(err, core.KindNotFound)) {
				failed = append(failed, err)
			}
		}
		return errors.Join(failed...)
	})
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and their contents")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "ignore paths that do not exist")
	return cmd
}

// FsStatOptions are the options of fs stat.
type FsStatOptions struct {
	App     *cli.App
	Sandbox string
	Path    string
	JSON    bool
}

// NewFsStat makes "sb fs stat".
func NewFsStat(app *cli.App) *cobra.Command {
	opts := &FsStatOptions{App: app}
	cmd := &cobra.Command{
		Use:               "stat SANDBOX PATH",
		Short:             "Show details of a file",
		Long:              "Show details of a file of a sandbox. Symbolic links are not followed.",
		Example:           "  sb fs stat dev /etc/hosts\n  sb fs stat --json dev data | jq .size",
		Args:              cli.Exactly("SANDBOX", "PATH"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], args[1]
			return runFsStat(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "an object: "+fileFields)
	return cmd
}

func runFsStat(ctx context.Context, opts *FsStatOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	info, err := service.Files.Stat(ctx, opts.Sandbox, opts.Path)
	if err != nil {
		return err
	}
	report := reportFile(info)
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, report)
	}
	table := opts.App.Table("FIELD", "VALUE")
	for _, row := range [][2]string{
		{"path", report.Path},
		{"type", report.Type},
		{"size", fmt.Sprintf("%d (%s)", report.Size, core.Bytes(report.Size))},
		{"mode", report.Mode + " (" + core.ModeText(info.Mode) + ")"},
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

// FsWatchOptions are the options of fs watch.
type FsWatchOptions struct {
	App       *cli.App
	Sandbox   string
	Path      string
	Recursive bool
	JSON      bool
}

// NewFsWatch makes "sb fs watch".
func NewFsWatch(app *cli.App) *cobra.Command {
	opts := &FsWatchOptions{App: app}
	cmd := &cobra.Command{
		Use:   "watch SANDBOX [PATH]",
		Short: "Watch files for changes",
		Long: "Print one line for each change in a directory or file of a sandbox, until interrupted or the sandbox ends.\n" +
			"Changes before the watch starts are not shown.",
		Example:           "  sb fs watch dev /app\n  sb fs watch -r dev . --json | jq -r .path",
		Args:              cli.Between([]string{"SANDBOX"}, "PATH"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], "."
			if len(args) > 1 {
				opts.Path = args[1]
			}
			return runFsWatch(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "include subdirectories")
	cli.JSONFlag(cmd, &opts.JSON, "NDJSON of kind (created, modified, removed, renamed), path, from")
	return cmd
}

func runFsWatch(ctx context.Context, opts *FsWatchOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	out := opts.App.Streams.Out
	encoder := json.NewEncoder(out)
	for event, err := range service.Files.Watch(ctx, opts.Sandbox, opts.Path, opts.Recursive) {
		if err == nil && opts.JSON {
			err = encoder.Encode(event)
		} else if err == nil {
			path := event.Path
			if event.From != "" {
				path = event.From + " -> " + path
			}
			_, err = fmt.Fprintf(out, "%-8s  %s\n", event.Kind, shown(opts.App.Streams, path))
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// FsWriteOptions are the options of fs write.
type FsWriteOptions struct {
	App     *cli.App
	Sandbox string
	Path    string
	Write   core.WriteOptions
}

// NewFsWrite makes "sb fs write".
func NewFsWrite(app *cli.App) *cobra.Command {
	opts := &FsWriteOptions{App: app}
	var mode string
	cmd := &cobra.Command{
		Use:   "write SANDBOX PATH",
		Short: "Write stdin to a file",
		Long:  "Write stdin to a file of a sandbox. The file is replaced atomically: a failed write changes nothing.",
		Example: "  echo 'hello' | sb fs write dev /tmp/hello\n" +
			"  sb fs write --parents --mode 0755 dev bin/tool < tool",
		Args:              cli.Exactly("SANDBOX", "PATH"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], args[1]
			if mode != "" {
				bits, err := strconv.ParseUint(mode, 8, 12)
				if err != nil || bits > 0o777 || bits == 0 {
					return cli.Usagef(cmd, "--mode %s is not an octal mode from 0001 to 0777", mode)
				}
				opts.Write.Mode = fs.FileMode(bits)
			}
			if app.Streams.InTTY() {
				return cli.Usagef(
					cmd,
					"%s reads stdin, which is a terminal; redirect a file or a pipe",
					cmd.CommandPath(),
				)
			}
			return runFsWrite(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Write.Append, "append", "a", false, "append to the file instead of replacing it")
	cmd.Flags().BoolVar(&opts.Write.Parents, "parents", false, "create missing directories")
	cmd.Flags().StringVar(&mode, "mode", "", "permissions in `OCTAL` (default: those of the file, or 0644)")
	return cmd
}

func runFsWrite(ctx context.Context, opts *FsWriteOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	return service.Files.WriteFile(ctx, opts.Sandbox, opts.Path, opts.App.Streams.In, opts.Write)
}
