package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/core/transfer"
)

// VolumeCopyOptions are the options of volume cp.
type VolumeCopyOptions struct {
	CopyOptions

	Provider string
	// Volume is the volume that the paths of Copy are in.
	Volume string
	// Into means that the target is in the volume. Otherwise all sources are.
	Into bool
}

// NewVolumeCp makes "sb volume cp".
func NewVolumeCp(app *cli.App) *cobra.Command {
	opts := &VolumeCopyOptions{CopyOptions: CopyOptions{App: app}}
	cmd := &cobra.Command{
		Use:   "cp SOURCE... TARGET",
		Short: "Copy files between a volume and this machine",
		Long: "Copy files between this machine and a volume, whose paths are VOLUME:/PATH, by the rules of \"sb cp\".\n" +
			"A sandbox without a network mounts the volume for that time.",
		Example: "  sb volume cp ./input data:/\n  sb volume cp data:/out/result.csv .\n  echo hello | sb volume cp - " +
			"data:/hello",
		Args: cli.AtLeast("SOURCE", "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.parse(cmd, args); err != nil {
				return err
			}
			return runVolumeCopy(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.Provider, "provider", "", "provider `NAME` (default: the one that has such a volume)")
	cli.Complete(cmd, "provider", app.CompleteProviders)
	opts.Register(cmd)
	opts.registerIncludeGit(cmd)
	return cmd
}

// parse reads the operands. One side is this machine, the other side is one volume.
func (o *VolumeCopyOptions) parse(cmd *cobra.Command, args []string) error {
	bad := func() error {
		return cli.Usagef(cmd, "one side must be a volume and the other side this machine: VOLUME:/PATH and PATH")
	}
	var all []transfer.Endpoint
	for i, arg := range args {
		operand, err := ParseOperand(arg)
		if err != nil {
			return err
		}
		end := operand.endpoint()
		last := i == len(args)-1
		if end.Sandbox != "" {
			if o.Volume != "" && (o.Volume != end.Sandbox || last) {
				return bad()
			}
			o.Volume, o.Into = end.Sandbox, last
			end.Path = inVolume(end.Path)
		}
		all = append(all, end)
	}
	o.From, o.To = all[:len(all)-1], all[len(all)-1]
	for _, from := range o.From {
		if (from.Sandbox == "") != o.Into {
			return bad()
		}
	}
	if o.Volume == "" {
		return bad()
	}
	return nil
}

// inVolume returns the path in the sandbox of a path in the volume. It stays in the volume. The ends "/" and "/." are
// kept, because they mean the content of a directory.
func inVolume(name string) string {
	inside := path.Join(service.VolumeTarget, path.Clean("/"+name))
	switch {
	case strings.HasSuffix(name, "/."), name == ".":
		return inside + "/."
	case strings.HasSuffix(name, "/"):
		return inside + "/"
	}
	return inside
}

func runVolumeCopy(ctx context.Context, opts *VolumeCopyOptions) (err error) {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, stop := opts.App.Progress()
	box, err := svc.Stores.OpenVolume(ctx, opts.Provider, opts.Volume, !opts.Into, report)
	stop()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.CleanupTimeout)
		defer cancel()
		if endErr := svc.Sandboxes.Terminate(ctx, box.ID); endErr != nil && !errors.Is(endErr, core.KindNotFound) {
			err = errors.Join(err, endErr)
		}
	}()
	for _, end := range append(slices.Clone(opts.From), opts.To) {
		if end.Sandbox == "" {
			continue
		}
		checked := end.Path
		if opts.Into {
			checked += "/" // nothing is written through the last step, either
		}
		if err := staysInVolume(ctx, svc, box.ID, opts.Volume, checked); err != nil {
			return err
		}
	}
	if opts.Into {
		opts.To.Sandbox = box.ID
	}
	for i := range opts.From {
		if !opts.Into {
			opts.From[i].Sandbox = box.ID
		}
	}
	inside := volumeNames{volume: opts.Volume, box: box.ID}
	opts.shown = func(end transfer.Endpoint) string {
		if end.Sandbox == "" {
			return end.String()
		}
		return inside.typed(end.String())
	}
	return inside.named(runCopy(ctx, &opts.CopyOptions))
}

// volumeNames translates names in the sandbox of a copy to those that the user typed.
type volumeNames struct{ volume, box string }

// typed translates a path in the sandbox, with or without the sandbox's id. Other names stay as they are.
func (n volumeNames) typed(name string) string {
	at, ok := strings.CutPrefix(strings.TrimPrefix(name, n.box+":"), service.VolumeTarget)
	if !ok || at != "" && at[0] != '/' {
		return name
	}
	return n.volume + ":/" + strings.TrimPrefix(at, "/")
}

// named translates the subject of an error. A hint that names the sandbox goes away, as the sandbox does.
func (n volumeNames) named(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err
	}
	typed := *e
	typed.Subject = n.typed(e.Subject)
	switch {
	case strings.Contains(e.Hint, n.box):
		typed.Hint = ""
	case e.Hint == "" && e.Kind == core.KindExhausted:
		typed.Hint = "free some space, then try again"
	}
	return &typed
}

// staysInVolume refuses a path that leads through a link, because that may lead out of the volume. A link as the last
// step is copied as a link.
func staysInVolume(ctx context.Context, svc *service.Service, box, volume, name string) error {
	at := service.VolumeTarget
	steps := strings.Split(strings.TrimPrefix(strings.TrimPrefix(name, service.VolumeTarget), "/"), "/")
	for _, step := range steps[:len(steps)-1] {
		at = path.Join(at, step)
		info, err := svc.Files.Stat(ctx, box, at)
		if errors.Is(err, core.KindNotFound) {
			return nil // the copy reports it, or makes it
		}
		if err != nil {
			return err
		}
		if info.Mode&fs.ModeSymlink != 0 {
			return core.Errorf(core.KindUnauthorized, "volume cp", "", "%s:%s is a link to %s, and may lead out of the volume",
				volume, strings.TrimPrefix(at, service.VolumeTarget), info.Link).
				WithHint("write the path without the link")
		}
	}
	return nil
}
