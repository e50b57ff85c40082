package commands

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// NewCheckpoint makes "sb checkpoint".
func NewCheckpoint(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "checkpoint",
		Example: "  sb checkpoint create dev --name warm\n  sb launch --checkpoint warm\n  sb checkpoint rm warm",
		Short:   "Sandboxes kept as they were, memory included",
		Long: "Keep running sandboxes, memory and files, under a name, and launch others that go on from there.\n\n" +
			"A checkpoint holds what the processes held in memory, secrets included: it is as secret as the sandbox\n" +
			"was. On this machine it lies in the state directory, readable for you alone." + exitStatusHelp,
	}, NewCheckpointCreate(app, nil), NewCheckpointLs(app, nil), NewCheckpointRm(app, nil))
}

// completeCheckpoints completes the names of checkpoints that were not named yet.
func (a *App) completeCheckpoints(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	named := map[string]bool{}
	for _, arg := range args {
		named[arg] = true
	}
	return a.ask(cmd, func(ctx context.Context, service *core.Service) []string {
		listing, err := service.Checkpoints(ctx)
		if err != nil {
			return nil
		}
		var words []string
		for _, c := range listing.Checkpoints {
			if strings.HasPrefix(c.Name, word) && !named[c.Name] {
				words = append(words, cobra.CompletionWithDesc(c.Name, "of "+c.Of+", "+c.Created.Local().Format(time.DateTime)))
			}
		}
		return words
	}), noFiles
}
