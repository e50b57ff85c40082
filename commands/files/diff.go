package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/core/transfer"
)

// DiffOptions are the options of diff.
type DiffOptions struct {
	App        *cli.App
	Sandbox    string
	Paths      []string
	Patch      bool
	NameOnly   bool
	Stat       bool
	IncludeGit bool
	JSON       bool
}

// NewDiff makes "sb diff".
func NewDiff(app *cli.App) *cobra.Command {
	opts := &DiffOptions{App: app}
	cmd := &cobra.Command{
		Use:   "diff SANDBOX [PATH...]",
		Short: "List the files that a sandbox changed",
		Long: "List what a sandbox added (A), changed (M) or deleted (D) in directories that were pushed or mounted\n" +
			"with :cow. Without such a directory, or with PATH /, the sandbox is compared with its image.",
		Example: "  sb diff dev\n  sb diff dev /srv/app --patch\n  sb diff dev /srv/app --patch | git -C ./src apply\n" +
			"  sb diff dev /",
		Args:              cli.AtLeast("SANDBOX"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return runDiff(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Patch, "patch", "p", false,
		"print the changes of text files as a patch for \"git apply\" in the directory on this machine")
	cmd.Flags().BoolVar(&opts.NameOnly, "name-only", false, "print only the paths in the sandbox")
	cmd.Flags().BoolVar(&opts.Stat, "stat", false, "print only how many files changed")
	cmd.Flags().BoolVar(&opts.IncludeGit, "include-git", false, "also compare .git")
	cli.JSONFlag(cmd, &opts.JSON, "an array of source, path, kind, type, size, conflict, refused")
	cmd.MarkFlagsMutuallyExclusive("patch", "name-only", "stat", "json")
	return cmd
}

// change is a line of the list.
type change struct {
	// Source is the file on this machine; "" for a comparison with the image.
	Source string `json:"source,omitempty"`
	// Path is absolute, in the sandbox.
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Type     string `json:"type,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Conflict string `json:"conflict,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

func runDiff(ctx context.Context, opts *DiffOptions) (err error) {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	chosen, rest, err := selected(ctx, svc, opts.Sandbox, opts.Paths)
	if err != nil {
		return err
	}
	changes := []change{}
	if len(rest) > 0 || len(chosen) == 0 {
		if opts.Patch {
			return core.Errorf(core.KindUnsupported, "diff", opts.Sandbox,
				"--patch needs a directory of this machine that was pushed, or that the sandbox sees copy-on-write").
				WithHint("list the changes without --patch, or copy files out: sb pull %s:PATH .", opts.Sandbox)
		}
		if changes, err = imageChanges(ctx, svc, opts.Sandbox, rest); err != nil {
			return err
		}
	}
	if opts.Patch && len(chosen) > 1 {
		return severalOrigins("diff", opts.Sandbox, chosen)
	}
	for _, selection := range chosen {
		review, err := transfer.NewReview(ctx, svc.Files, transfer.ReviewRequest{
			Sandbox: opts.Sandbox, Origin: selection.Origin, Paths: selection.Paths, IncludeGit: opts.IncludeGit,
			Content: opts.Patch,
		})
		if err != nil {
			return err
		}
		if opts.Patch {
			err = review.Patch(patchWriter(opts.App))
		}
		changes = append(changes, listed(selection, review)...)
		if err := errors.Join(err, review.Close()); err != nil || opts.Patch {
			return err
		}
	}
	return printChanges(opts, changes)
}

// selected returns the origins that paths choose. Relative paths begin at the sandbox's workdir.
func selected(
	ctx context.Context, svc *service.Service, sandbox string, paths []string,
) (chosen []transfer.Selection, rest []string, err error) {
	origins, err := svc.Files.Origins(ctx, sandbox)
	if err != nil {
		return nil, nil, err
	}
	whole := make([]string, len(paths))
	for i, p := range paths {
		if !path.IsAbs(p) {
			sb, err := svc.Sandboxes.Resolve(ctx, sandbox)
			if err != nil {
				return nil, nil, err
			}
			p = path.Join("/", sb.Spec.Workdir, p)
		}
		whole[i] = path.Clean(p)
	}
	chosen, rest = transfer.Select(origins, whole)
	return chosen, rest, nil
}

// imageChanges lists the files that differ from the image, below any of paths.
func imageChanges(ctx context.Context, svc *service.Service, sandbox string, paths []string) ([]change, error) {
	found, err := svc.Files.Diff(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	changes := []change{}
	for _, c := range found {
		fits := len(paths) == 0
		for _, p := range paths {
			fits = fits || c.Path == p || strings.HasPrefix(c.Path, strings.TrimSuffix(p, "/")+"/")
		}
		if fits {
			changes = append(changes, change{Path: c.Path, Kind: c.Kind})
		}
	}
	return changes, nil
}

func listed(selection transfer.Selection, review *transfer.Review) []change {
	changes := make([]change, 0, len(review.Changes))
	for _, d := range review.Changes {
		changes = append(changes, change{
			Source: path.Join(selection.Origin.Source, d.Path), Path: path.Join(selection.Origin.Target, d.Path),
			Kind: d.Kind, Type: d.Type, Size: d.Size, Conflict: d.Conflict, Refused: d.Refused,
		})
	}
	return changes
}

// severalOrigins is the error of an operation for one directory.
func severalOrigins(op, sandbox string, chosen []transfer.Selection) error {
	var targets []string
	for _, s := range chosen {
		targets = append(targets, s.Origin.Target)
	}
	return core.Errorf(core.KindUsage, op, sandbox, "several directories of this machine are in the sandbox: %s",
		strings.Join(targets, ", ")).WithHint("name one of them: sb %s %s %s", op, sandbox, targets[0])
}

func printChanges(opts *DiffOptions, changes []change) error {
	out := opts.App.Streams.Out
	if opts.JSON {
		return output.JSON(out, changes)
	}
	if opts.Stat {
		count := map[string]int{}
		for _, c := range changes {
			count[c.Kind]++
		}
		_, err := fmt.Fprintf(out, "%s: %d added, %d changed, %d deleted\n", output.Count(len(changes), "file", "files"),
			count[transfer.Added], count[transfer.Modified], count[transfer.Deleted])
		return err
	}
	return writeChanges(opts.App, changes, opts.NameOnly)
}

// writeChanges writes a line for each change to stdout, and the problems of changes to stderr.
func writeChanges(app *cli.App, changes []change, nameOnly bool) error {
	var lines strings.Builder
	for _, c := range changes {
		name := transfer.QuotedPath(c.Path)
		if !nameOnly {
			name = map[string]string{transfer.Added: "A", transfer.Modified: "M", transfer.Deleted: "D"}[c.Kind] + " " + name
		}
		lines.WriteString(name + "\n")
	}
	if _, err := io.WriteString(app.Streams.Out, lines.String()); err != nil {
		return err
	}
	for _, c := range changes {
		for _, problem := range [][2]string{{"conflict", c.Conflict}, {"cannot be applied", c.Refused}} {
			if why := problem[1]; why != "" {
				_, _ = fmt.Fprintf(app.Streams.Err, "%s: %s: %s\n", problem[0], transfer.QuotedPath(c.Path), why)
			}
		}
	}
	return nil
}

// patchWriter returns stdout. On a terminal it removes control characters of the sandbox.
func patchWriter(app *cli.App) io.Writer {
	if !app.Streams.OutTTY() {
		return app.Streams.Out
	}
	return cleaned{app.Streams.Out}
}

// cleaned removes control characters and escape sequences. Each Write has whole lines.
type cleaned struct{ w io.Writer }

func (c cleaned) Write(p []byte) (int, error) {
	var text strings.Builder
	for line := range strings.Lines(string(p)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, part := range parts {
			parts[i] = output.Clean(part)
		}
		text.WriteString(strings.Join(parts, "\t") + "\n")
	}
	if _, err := io.WriteString(c.w, text.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
