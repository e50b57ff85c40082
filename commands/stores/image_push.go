package stores

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// ImagePushOptions are the options of image push.
type ImagePushOptions struct {
	cli.StoreFlags

	App         *cli.App
	Image, Name string
}

// NewImagePush makes "sb image push".
func NewImagePush(app *cli.App) *cobra.Command {
	opts := &ImagePushOptions{App: app}
	cmd := &cobra.Command{
		Use: "push IMAGE [NAME]", Short: "Push an image to a registry",
		Long: "Push an image or a snapshot to the registry in NAME and print its name with the digest. The credentials\n" +
			"are those of \"docker login\".",
		Example: "  sb image push app:1 registry.example.com/me/app:1\n  sb image push ghcr.io/me/app:1",
		Args:    cli.Between([]string{"IMAGE"}, "NAME"), ValidArgsFunction: cli.FirstArg(app.CompleteStored(imageNames)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Image = args[0]
			if len(args) > 1 {
				opts.Name = args[1]
			}
			return runImagePush(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cli.JSONFlag(cmd, &opts.JSON, "name, digest, provider")
	cli.QuietFlag(cmd, &opts.Quiet, "the name with the digest, without progress")
	return cmd
}

func runImagePush(ctx context.Context, opts *ImagePushOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, stop := opts.App.Progress()
	if opts.Quiet {
		report = nil
	}
	pushed, err := svc.Stores.PushImage(ctx, opts.Provider, opts.Image, opts.Name, report)
	stop()
	if err != nil {
		return err
	}
	name := pushed.Name + "@" + pushed.Digest
	return opts.App.Tell(cli.Made{
		Op: "image push", ID: name, Value: pushed, Fact: "the registry has the image " + name,
		Next: "sb image pull " + name + " gets it from there",
	}, opts.JSON)
}
