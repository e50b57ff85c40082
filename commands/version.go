package commands

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// Build says what was built. Release builds set it by the linker; others take it
// from what the go command recorded.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
}

// complete fills in what the linker was not told.
func (b Build) complete() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			if b.Commit == "" {
				b.Commit = setting.Value
			}
		case "vcs.time":
			if b.Date == "" {
				b.Date = setting.Value
			}
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
		if modified {
			b.Version = "devel+dirty"
		}
	}
	return b
}

// VersionOptions are what version works with.
type VersionOptions struct {
	App  *App
	JSON bool
}

// NewVersion makes "sb version".
func NewVersion(app *App, runF func(context.Context, *VersionOptions) error) *cobra.Command {
	opts := &VersionOptions{App: app}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print sb's version, the commit it was built from, and the Go version that built it." + exitStatusHelp,
		Example: "  sb version\n  sb version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runVersion)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "an object: version, commit, date, go, platform")
	return cmd
}

func runVersion(_ context.Context, opts *VersionOptions) error {
	build := opts.App.Build.complete()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, struct {
			Build
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
