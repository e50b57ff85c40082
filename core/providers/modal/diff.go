package modal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// referenceLife is the timeout of the sandbox that Diff compares with.
	referenceLife = 10 * time.Minute
	// skew is the largest expected difference between the clocks of Modal and of a sandbox's machine.
	skew = 2 * time.Minute
)

// notDiffed returns the directories and files that Modal manages.
func notDiffed() []string {
	return []string{"/proc", "/sys", "/dev", "/run", "/__modal", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
}

// diffFormat prints a file's type, size, time, mode, owner and group, then a link's target, then the name. Zero bytes
// separate them, because a name may contain any other byte.
const diffFormat = `%y %s %T@ %m %U %G\0%l\0%p\0`

// Each script writes diffEnd last, so that cut output is detected.
const (
	diffEnd = "sb-end"
	// findChanged lists the files that changed since the time $1, except the paths in the other arguments.
	findChanged = `find / -maxdepth 0 -printf '' 2>/dev/null || exit 3
since=$1; shift; for p do set -- "$@" -path "$p" -o; shift; done
find / \( "$@" -false \) -prune -o -newerct "@$since" -printf '` + diffFormat + `' 2>/dev/null
printf ` + diffEnd
	// listNamed lists the files named on stdin and skips missing ones.
	listNamed = `xargs -0 -r sh -c 'find "$@" -maxdepth 0 -printf "` + diffFormat +
		`" 2>/dev/null; :' sh && printf ` + diffEnd
	// hashNamed writes the SHA-256 and the name of each file named on stdin.
	hashNamed = `xargs -0 -r sh -c 'sha256sum -z -- "$@" 2>/dev/null; :' sh && printf ` + diffEnd
	// listInside lists the entries of the directories named on stdin.
	listInside = `xargs -0 -r sh -c 'find "$@" -mindepth 1 -maxdepth 1 -printf "%p\0" 2>/dev/null; :' sh && printf ` +
		diffEnd
)

// found is a file as find describes it.
type found struct {
	kind byte // as find's %y
	// rest is size, time, mode, owner and group.
	rest   [5]string
	target string
}

// same reports whether a file is unchanged. It ignores the size and time of links, and of directories, where they
// change with the entries.
func (f found) same(was found) bool {
	if f.kind == 'd' || f.kind == 'l' {
		f.rest[0], f.rest[1], was.rest[0], was.rest[1] = "", "", "", ""
	}
	return f == was
}

// rewritten reports whether only the time of a regular file changed, so that its content may be the same.
func (f found) rewritten(was found) bool {
	f.rest[1], was.rest[1] = "", ""
	return f.kind == 'f' && f == was
}

// Diff implements core.Differ. Modal has no call for it, so Diff searches the sandbox for files that changed since the
// launch. It compares them with a temporary sandbox from the same image. KindUnsupported: the image has no GNU find.
// Diff does not report a file that was rewritten with the same size and time.
func (p *Provider) Diff(ctx context.Context, id string) ([]core.Change, error) {
	d, err := p.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	sb := d.sandbox("")
	if !sb.State.Live() {
		return nil, hasEnded(sb)
	}
	if d, err = p.listed(ctx, d); err != nil {
		return nil, client.Classify("diff", id, err)
	}
	sb = d.sandbox("")
	if sb.Spec.Checkpoint != "" {
		return nil, core.Errorf(
			core.KindUnsupported, "modal.diff", sb.Name,
			"the differences from the image are unknown for a sandbox that was launched from a checkpoint",
		)
	}
	skip := notDiffed()
	for _, v := range sb.Spec.Volumes {
		skip = append(skip, path.Clean(v.Target))
	}
	var reference string
	var now map[string]found
	err = client.Together(
		func() (err error) { reference, err = p.reference(ctx, d, sb); return err },
		func() (err error) { now, err = p.changed(ctx, id, d.created.Add(-skew), skip); return err },
	)
	if reference != "" {
		defer func() { _ = p.Terminate(context.WithoutCancel(ctx), reference) }()
	}
	if err != nil {
		return nil, err
	}
	return p.compare(ctx, id, reference, now, skip)
}

// reference launches a sandbox from the image of another one and returns its id. Its timeout ends it, even if this
// process dies.
func (p *Provider) reference(ctx context.Context, d described, of core.Sandbox) (string, error) {
	c, err := p.connect()
	if err != nil {
		return "", err
	}
	spec := core.Spec{
		Name: core.NewName(), App: of.App, Image: of.Image, Timeout: core.Duration(referenceLife),
		Network: core.Network{Mode: core.NetworkNone},
	}
	lease := core.Lease{Owner: core.CurrentOwner("diff"), Created: time.Now().UTC(), Bound: true}
	made, err := c.SDK.Sandboxes.Create(ctx, &sdk.App{AppID: d.appID}, &sdk.Image{ImageID: d.image},
		&sdk.SandboxCreateParams{
			Name: spec.Name, Timeout: referenceLife, Workdir: of.Spec.Workdir, BlockNetwork: true, Tags: tagsOf(spec, lease),
		})
	if err != nil {
		return "", client.Classify("diff", d.image, err)
	}
	return made.SandboxID, core.Wrap("modal.diff", made.SandboxID, made.Detach())
}

// changed lists the files of a sandbox whose content, owner or mode changed since a time.
func (p *Provider) changed(ctx context.Context, id string, since time.Time, skip []string) (map[string]found, error) {
	argv := append([]string{"sh", "-c", findChanged, "sh", strconv.FormatInt(since.Unix(), 10)}, skip...)
	text, err := p.piped(ctx, id, argv, nil)
	if err != nil {
		return nil, err
	}
	return parseFound(text)
}

// compare returns the changes among the candidates.
func (p *Provider) compare(
	ctx context.Context, id, reference string, now map[string]found, skip []string,
) ([]core.Change, error) {
	var names, directories bytes.Buffer
	for name, file := range now {
		names.WriteString(name + "\x00")
		if file.kind == 'd' {
			directories.WriteString(name + "\x00")
		}
	}
	var before map[string]found
	var inside, was map[string]bool
	err := client.Together(
		func() error {
			text, err := p.piped(ctx, reference, []string{"sh", "-c", listNamed}, names.Bytes())
			if err == nil {
				before, err = parseFound(text)
			}
			return err
		},
		func() (err error) { inside, err = p.inside(ctx, id, directories.Bytes()); return err },
		func() (err error) { was, err = p.inside(ctx, reference, directories.Bytes()); return err },
	)
	if err != nil {
		return nil, err
	}
	again, err := p.rewritten(ctx, id, reference, now, before)
	if err != nil {
		return nil, err
	}
	var changes []core.Change
	for name, file := range now {
		old, there := before[name]
		switch {
		case !there:
			changes = append(changes, core.Change{Path: name, Kind: "added"})
		case !file.same(old) && !again[name]:
			changes = append(changes, core.Change{Path: name, Kind: "changed"})
		}
	}
	for name := range was {
		if !inside[name] && !slices.ContainsFunc(skip, func(dir string) bool {
			return name == dir ||
				strings.HasPrefix(name, dir+"/")
		}) {
			changes = append(changes, core.Change{Path: name, Kind: "deleted"})
		}
	}
	slices.SortFunc(changes, func(a, b core.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// rewritten returns the files that were rewritten with the same content.
func (p *Provider) rewritten(
	ctx context.Context, id, reference string, now, before map[string]found,
) (map[string]bool, error) {
	var names bytes.Buffer
	for name, file := range now {
		if old, there := before[name]; there && !file.same(old) && file.rewritten(old) {
			names.WriteString(name + "\x00")
		}
	}
	same := map[string]bool{}
	if names.Len() == 0 {
		return same, nil
	}
	var texts [2]string
	err := client.Each([]string{id, reference}, func(i int, box string) (err error) {
		texts[i], err = p.piped(ctx, box, []string{"sh", "-c", hashNamed}, names.Bytes())
		return err
	})
	hashes := map[string]bool{}
	for line := range strings.SplitSeq(texts[1], "\x00") {
		hashes[line] = true
	}
	for line := range strings.SplitSeq(texts[0], "\x00") {
		if _, name, ok := strings.Cut(line, "  "); ok && hashes[line] {
			same[name] = true
		}
	}
	return same, err
}

// inside lists the entries of directories.
func (p *Provider) inside(ctx context.Context, id string, directories []byte) (map[string]bool, error) {
	text, err := p.piped(ctx, id, []string{"sh", "-c", listInside}, directories)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(text, "\x00") {
		if name != "" {
			names[name] = true
		}
	}
	return names, nil
}

// piped runs one of the scripts above with an input and returns its output without diffEnd.
func (p *Provider) piped(ctx context.Context, id string, argv []string, input []byte) (string, error) {
	o, err := p.programs().Operate(ctx, id, "diff", id, argv)
	if err != nil {
		return "", err
	}
	sent := make(chan error, 1)
	go func() {
		sent <- o.Send(ctx, func(w io.Writer) error { _, err := w.Write(input); return err })
	}()
	output, readErr := o.All()
	exit, err := o.Wait(ctx)
	if err := errors.Join(err, <-sent, core.Wrap("modal.diff", id, readErr)); err != nil {
		return "", err
	}
	text, whole := strings.CutSuffix(string(output), diffEnd)
	switch {
	case exit.Code == 3 || exit.Code == 127 || exit.Code == 126:
		return "", core.Errorf(
			core.KindUnsupported, "modal.diff", id, "the image has no GNU find, which lists the changes",
		)
	case exit.Code != 0 || !whole:
		return "", core.Errorf(
			core.KindInternal, "modal.diff", id, "the files could not be listed: exit code %d: %s", exit.Code, o.Complaints(),
		)
	}
	return text, nil
}

// parseFound reads a list in diffFormat.
func parseFound(text string) (map[string]found, error) {
	files := map[string]found{}
	fields := strings.Split(text, "\x00")
	for ; len(fields) > 3; fields = fields[3:] {
		facts := strings.Fields(fields[0])
		if len(facts) != 6 || !path.IsAbs(fields[2]) {
			return nil, core.Errorf(core.KindInternal, "modal.diff", "", "the list of files is damaged at %q", fields[0])
		}
		files[fields[2]] = found{kind: facts[0][0], rest: [5]string(facts[1:]), target: fields[1]}
	}
	if len(fields) != 1 || fields[0] != "" {
		return nil, core.Errorf(core.KindInternal, "modal.diff", "", "the list of files is damaged at its end")
	}
	return files, nil
}
