package commands

import "github.com/spf13/cobra"

// NewVolume makes "sb volume", which holds what concerns volumes.
func NewVolume(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "volume", Aliases: []string{"volumes"}, Short: "Volumes that providers keep",
		Long:    "List, make and remove the volumes that providers keep. \"sb launch --volume NAME:/PATH\" mounts one." + exitStatusHelp,
		Example: "  sb volume create data --provider docker\n  sb launch --provider docker --volume data:/data\n  sb volume ls",
	}, NewVolumeLs(app), NewVolumeCreate(app), NewVolumeRm(app))
}
