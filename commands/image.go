package commands

import "github.com/spf13/cobra"

// NewImage makes "sb image", which holds what concerns images.
func NewImage(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: "Images that providers have at hand",
		Long:    "List, get and remove the images that providers have at hand, and mount one in a sandbox that runs." + exitStatusHelp,
		Example: "  sb image pull python:3.12 --provider docker\n  sb image ls\n  sb image rm python:3.12",
	}, NewImageLs(app), NewImagePull(app), NewImageRm(app), NewImageMount(app), NewImageUnmount(app))
}
