package commands

import (
	"github.com/spf13/cobra"
)

// NewFs makes "sb fs", which holds the operations on files inside sandboxes.
func NewFs(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:   "fs",
		Short: "Read and write files inside a sandbox",
		Long: "Read and write files inside a running sandbox, as its user. A relative PATH begins at the\n" +
			"sandbox's working directory. To move whole trees see \"sb cp\"." + exitStatusHelp,
		Example: "  sb fs ls dev /etc\n  sb fs cat dev notes.txt\n  echo hello | sb fs write dev /tmp/hello",
	}, NewFsLs(app, nil), NewFsCat(app, nil), NewFsWrite(app, nil), NewFsMkdir(app, nil), NewFsRm(app, nil), NewFsStat(app, nil),
		NewFsWatch(app, nil))
}
