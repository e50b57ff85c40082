package tools

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type diffIn struct {
	Sandbox string `json:"sandbox"`
	Path    string `json:"path,omitempty" jsonschema:"only below this path in the sandbox"`
	Patch   bool   `json:"patch,omitempty" jsonschema:"shows the changed lines; for pushed directories"`
	Budget  int    `json:"max_output,omitempty" jsonschema:"characters"`
}

type applyIn struct {
	Sandbox string `json:"sandbox"`
	Path    string `json:"path,omitempty" jsonschema:"only below this path in the sandbox"`
}

// fileChange is a file that differs. Kind is "added", "changed" or "deleted".
type fileChange struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Conflict string `json:"conflict,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

type diffOut struct {
	// Against is the directory of this machine, or "image".
	Against []string     `json:"against"`
	Changes []fileChange `json:"changes"`

	patch string
}

// Text implements texter.
func (o diffOut) Text() string {
	if len(o.Changes) == 0 {
		return "no changes against " + strings.Join(o.Against, ", ")
	}
	if o.patch != "" {
		return o.patch
	}
	lines := []string{fmt.Sprintf("%d changes against %s", len(o.Changes), strings.Join(o.Against, ", "))}
	for _, c := range o.Changes {
		lines = append(lines, c.String())
	}
	return list(lines)
}

// String returns a line as "git status" prints it, with the reason why apply would leave the file.
func (c fileChange) String() string {
	letter := map[string]string{transfer.Added: "A", transfer.Modified: "M", transfer.Deleted: "D"}[c.Kind]
	line := letter + " " + transfer.QuotedPath(c.Path)
	if why := cmp.Or(c.Refused, c.Conflict); why != "" {
		line += " (" + why + ")"
	}
	return line
}

type applyOut struct {
	Directory string             `json:"directory"`
	Done      []string           `json:"done"`
	Left      []transfer.Failure `json:"left,omitempty"`
}

// Text implements texter.
func (o applyOut) Text() string {
	lines := []string{fmt.Sprintf("applied to %s: %d", o.Directory, len(o.Done))}
	for _, left := range o.Left {
		lines = append(lines, "left as it was: "+transfer.QuotedPath(left.Path)+" ("+left.Why+")")
	}
	for _, name := range o.Done {
		lines = append(lines, transfer.QuotedPath(name))
	}
	return list(lines)
}

func reviewTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "diff", Title: "Changed files of a sandbox", Toolset: setup.Transfer, Extra: true, ReadOnly: true,
			Idempotent: true, Continues: true,
			Description: "List the files that a sandbox added, changed or deleted since they were pushed from the user's " +
				"machine. Without pushed files, the sandbox is compared with its image.",
		}, diff),
		Define(Tool{
			Name: "apply", Title: "Apply the changes of a sandbox", Toolset: setup.Transfer, Extra: true, Destructive: true,
			Continues: true,
			Description: "Make the changes that diff lists in the directory of the user's machine that was pushed. A file " +
				"that changed on both sides is left as it was.",
		}, apply),
	}
}

// reviewed returns the pushed directories that a path chooses; "" chooses all. image reports that the path, or the
// whole sandbox without one, has none.
func (c *Call) reviewed(
	ctx context.Context, sb core.Sandbox, name string,
) (chosen []transfer.Selection, image bool, err error) {
	origins, err := c.Service.Files.Origins(ctx, sb.Ref())
	if err != nil {
		return nil, false, err
	}
	var paths []string
	if name != "" {
		paths = []string{Absolute(sb, name)}
	}
	chosen, rest := transfer.Select(origins, paths)
	for _, selection := range chosen {
		root, _, err := c.hostPath(ctx, selection.Origin.Source)
		if err != nil {
			return nil, false, err
		}
		if err := root.Close(); err != nil {
			return nil, false, err
		}
	}
	return chosen, len(rest) > 0 || len(chosen) == 0, nil
}

func (c *Call) review(
	ctx context.Context, sb core.Sandbox, selection transfer.Selection, content bool,
) (*transfer.Review, error) {
	return transfer.NewReview(ctx, c.Service.Files, transfer.ReviewRequest{
		Sandbox: sb.Ref(), Origin: selection.Origin, Paths: selection.Paths, Content: content,
	})
}

func diff(ctx context.Context, c *Call, in diffIn) (diffOut, error) {
	out := diffOut{Changes: []fileChange{}}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	chosen, image, err := c.reviewed(ctx, sb, in.Path)
	if err != nil {
		return out, err
	}
	if image {
		return c.imageDiff(ctx, sb, in)
	}
	clean := c.Host.Secrets.Of(sb.ID).Clean
	patch := clipped{left: c.Budget(in.Budget)}
	for _, selection := range chosen {
		out.Against = append(out.Against, selection.Origin.Source)
		review, err := c.review(ctx, sb, selection, in.Patch)
		if err != nil {
			return out, err
		}
		for _, d := range review.Changes {
			out.Changes = append(out.Changes, fileChange{
				Path: clean(path.Join(selection.Origin.Target, d.Path)), Kind: d.Kind, Conflict: d.Conflict, Refused: d.Refused,
			})
		}
		if in.Patch {
			err = review.Patch(&patch)
		}
		if err := errors.Join(err, review.Close()); err != nil {
			return out, err
		}
	}
	out.patch = strings.ToValidUTF8(clean(patch.text.String()), "\uFFFD")
	if patch.cut {
		out.patch += "\n[... the patch is longer; name a path or raise max_output ...]"
	}
	return out, nil
}

// clipped keeps the beginning of a text. It never fails.
type clipped struct {
	text bytes.Buffer
	left int // characters
	cut  bool
}

// Write implements io.Writer.
func (c *clipped) Write(p []byte) (int, error) {
	kept := reply.FirstRunes(p, c.left)
	c.text.Write(kept)
	c.left -= len([]rune(string(kept)))
	if len(kept) < len(p) {
		c.cut, c.left = true, 0
	}
	return len(p), nil
}

// imageDiff compares a sandbox with its image.
func (c *Call) imageDiff(ctx context.Context, sb core.Sandbox, in diffIn) (diffOut, error) {
	out := diffOut{Against: []string{"its image"}, Changes: []fileChange{}}
	if in.Patch {
		return out, core.Errorf(core.KindUnsupported, "diff", sb.Name, "patch needs a directory that was pushed").
			WithHint("leave out patch; file_read returns a changed file")
	}
	found, err := c.Service.Files.Diff(ctx, sb.Ref())
	if err != nil {
		return out, err
	}
	below := "/"
	if in.Path != "" {
		below = Absolute(sb, in.Path)
	}
	for _, change := range found {
		if below == "/" || change.Path == below || strings.HasPrefix(change.Path, below+"/") {
			out.Changes = append(out.Changes, fileChange{Path: c.Host.Secrets.Clean(sb.ID, change.Path), Kind: change.Kind})
		}
	}
	return out, nil
}

func apply(ctx context.Context, c *Call, in applyIn) (_ applyOut, err error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return applyOut{}, err
	}
	chosen, image, err := c.reviewed(ctx, sb, in.Path)
	if err != nil {
		return applyOut{}, err
	}
	if image {
		return applyOut{}, core.Errorf(core.KindNotFound, "apply", sb.Name, "no directory of this machine was pushed there").
			WithHint("pull copies files to this machine")
	}
	if len(chosen) > 1 {
		var targets []string
		for _, selection := range chosen {
			targets = append(targets, selection.Origin.Target)
		}
		return applyOut{}, core.Errorf(core.KindUsage, "apply", sb.Name, "several directories were pushed: %s",
			strings.Join(targets, ", ")).WithHint("name one of them as path")
	}
	review, err := c.review(ctx, sb, chosen[0], true)
	if err != nil {
		return applyOut{}, err
	}
	defer func() { err = errors.Join(err, review.Close()) }()
	out := applyOut{Directory: chosen[0].Origin.Source, Done: []string{}}
	if len(review.Changes) == 0 {
		return out, nil
	}
	// The answer comes with another call, and the sandbox may have changed its files meanwhile. Then the question has
	// another id, and the user is asked again.
	var patch bytes.Buffer
	if err := review.Patch(&patch); err != nil {
		return out, err
	}
	for _, d := range review.Changes {
		fmt.Fprintf(&patch, "%s %s %d %s\n", d.Kind, d.Path, d.Size, d.Link)
	}
	sum := sha256.Sum256(patch.Bytes())
	if err := c.confirm(ctx, "apply-"+hex.EncodeToString(sum[:8]), fmt.Sprintf(
		"Apply %d changes of sandbox %s to %s on this machine?", len(review.Changes), sb.Name, out.Directory,
	)); err != nil {
		return out, err
	}
	applied, err := review.Apply(transfer.ApplyOptions{})
	out.Done, out.Left = applied.Done, applied.Left
	return out, err
}
