package service

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

// DockerfileFiles is the name of the archive that a Dockerfile with files adds. It lies beside the Dockerfile.
const DockerfileFiles = "files.tar"

// DockerfileMark begins each exported Dockerfile.
const DockerfileMark = "# The files of sandbox "

const (
	// maxDiff bounds how many changed files a Dockerfile names.
	maxDiff = 200
	// maxInline bounds a file in a Dockerfile, in bytes. Builders bound a line at 64 KiB.
	maxInline = 16 << 10
	// maxRemoval bounds the names in one RUN, in bytes. The kernel bounds one argument at 128 KiB.
	maxRemoval = 64 << 10
)

// DockerfileOptions are the options of an exported Dockerfile.
type DockerfileOptions struct {
	// Replay repeats the commands that succeeded. Without it they are comments.
	Replay bool
	// Files receives the files that differ from the image, as the tar archive DockerfileFiles. nil leaves them out:
	// comments then name them. With Replay, the text has small text files that were written one by one.
	Files io.Writer
	// Clean hides secret values in the text, not in the files; nil hides none.
	Clean *redact.Redactor
}

// Dockerfile is an exported Dockerfile.
type Dockerfile struct {
	Text string
	// Files reports that Text adds DockerfileFiles.
	Files bool
}

// ExportDockerfile writes a Dockerfile that makes an image with the files of a sandbox. It begins with the sandbox's
// image, by digest where the image has one. It removes what the sandbox removed, and adds the files that differ. So the
// build needs no network, and the files do not depend on what the commands do a second time.
//
// Comments name the parts that an image cannot have: values of secrets, devices and sockets. KindUnauthorized: the
// sandbox's user cannot read one of the files.
func (s Sandboxes) ExportDockerfile(ctx context.Context, ref string, opts DockerfileOptions) (Dockerfile, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return Dockerfile{}, err
	}
	d := &dockerfile{clean: opts.Clean, replay: opts.Replay, inline: opts.Replay && opts.Files == nil}
	done, err := s.exportDockerfile(ctx, d, sb, p, opts.Files)
	return done, about("export", ref, sb, err)
}

func (s Sandboxes) exportDockerfile(
	ctx context.Context, d *dockerfile, sb core.Sandbox, p core.Provider, files io.Writer,
) (Dockerfile, error) {
	d.line(DockerfileMark+"%s (%s).", sb.Name, sb.ID)
	if err := d.begin(ctx, sb, p); err != nil {
		return Dockerfile{}, err
	}
	steps, err := s.steps(ctx, sb, p)
	if err != nil {
		return Dockerfile{}, err
	}
	for _, step := range steps {
		step.write(d)
	}
	added := false
	differ, ok := core.Optional[core.Differ](p)
	switch {
	case ok:
		changes, err := differ.Diff(ctx, sb.ID)
		if err != nil {
			return Dockerfile{}, err
		}
		if files == nil {
			d.diff(changes)
		} else if added, err = d.files(ctx, sb, p, changes, files); err != nil {
			return Dockerfile{}, err
		}
	case files != nil:
		return Dockerfile{}, core.Errorf(
			core.KindUnsupported, "export", sb.Name, "%s does not list the files that differ from the image", p.Name(),
		).WithHint("repeat the commands instead: sb export dockerfile %s --replay", sb.Name)
	}
	d.end(sb)
	return Dockerfile{Text: d.text.String(), Files: added}, nil
}

// step is one operation in a sandbox.
type step struct {
	at    time.Time
	write func(*dockerfile)
}

// steps returns the steps of the sandbox, oldest first.
func (s *base) steps(ctx context.Context, sb core.Sandbox, p core.Provider) ([]step, error) {
	var list []step
	journaled := false
	if journal, ok := p.(core.Journaler); ok {
		execs, err := journal.Execs(ctx, sb.ID)
		if err != nil {
			return nil, err
		}
		journaled = true
		for _, e := range execs {
			if e.ID != "0" { // the entry command is the image's own
				list = append(list, step{e.Started, func(d *dockerfile) { d.command(e) }})
			}
		}
	}
	for record, err := range (Records{s}).History(ctx, HistoryFilter{Sandbox: sb.ID}) {
		if _, ok := errors.AsType[*AuditDamage](err); ok {
			list = append(list, step{s.now(), func(d *dockerfile) {
				d.comment("the audit log is damaged: steps may be missing here")
			}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if record.Result != "ok" || record.Sandbox != sb.ID {
			continue
		}
		switch record.Op {
		case "exec":
			if !journaled {
				list = append(list, step{record.Time, func(d *dockerfile) { d.recorded(record.Args) }})
			}
		case "write":
			name, _ := record.Args["path"].(string)
			list = append(list, step{record.Time, func(d *dockerfile) { d.written(ctx, sb, p, name) }})
		case "push", "mkdir", "rm":
			list = append(list, step{record.Time, func(d *dockerfile) {
				d.comment("sb %s changed %v here", record.Op, record.Args["path"])
			}})
		}
	}
	slices.SortStableFunc(list, func(a, b step) int { return a.at.Compare(b.at) })
	return list, nil
}

// dockerfile is the text under way, and where the next instruction would run.
type dockerfile struct {
	text   strings.Builder
	clean  *redact.Redactor
	replay bool
	// inline means that the text has written files, each once.
	inline  bool
	inlined []string
	// image is the base, as far as the provider knows it.
	image         core.ImageDetails
	workdir, user string
}

func (d *dockerfile) line(format string, args ...any) { fmt.Fprintf(&d.text, format+"\n", args...) }

// comment writes a comment as one line, whatever it contains.
func (d *dockerfile) comment(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return unicode.ReplacementChar
		}
		return r
	}, d.clean.Clean(fmt.Sprintf(format, args...)))
	d.line("# %s", strings.Join(strings.Fields(text), " "))
}

// argv writes an instruction in its JSON form, which runs without a shell.
func (d *dockerfile) argv(instruction string, argv []string) {
	clean := make([]string, len(argv))
	for i, arg := range argv {
		clean[i] = d.clean.Clean(arg)
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // for a human reader
	if encoder.Encode(clean) == nil {
		d.line("%s %s", instruction, strings.TrimSuffix(text.String(), "\n"))
	}
}

// begin writes the base and the variables.
func (d *dockerfile) begin(ctx context.Context, sb core.Sandbox, p core.Provider) error {
	spec := sb.Spec
	from := cmp.Or(spec.Snapshot, spec.Image, sb.Image, "scratch")
	switch from {
	case core.HostImage:
		d.comment("It used the programs of its machine: choose a similar image.")
		from = "debian:stable-slim"
	default:
		if editor, ok := core.Optional[core.ImageEditor](p); ok {
			found, err := editor.InspectImage(ctx, cmp.Or(sb.ImageID, from))
			if err != nil && !errors.Is(err, core.KindNotFound) {
				return err
			}
			d.image = found
		}
		from = d.base(spec, from)
	}
	d.line("FROM %s", from)
	d.user, d.workdir = d.image.User, cmp.Or(d.image.Workdir, "/")
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if strings.ContainsAny(spec.Env[name], "\r\n") {
			d.comment("ENV %s has several lines: set it when you run the image", name)
			continue
		}
		d.line("ENV %s=%s", name, quoted(d.clean.Clean(spec.Env[name])))
	}
	for _, secret := range spec.Secrets {
		d.comment("secret %s: pass it when you run the image", secret.Name)
	}
	for _, volume := range spec.Volumes {
		d.comment("%s was a volume: mount one when you run the image", volume.Target)
	}
	return nil
}

// base returns the reference for FROM: by digest, or else a name.
func (d *dockerfile) base(spec core.Spec, from string) string {
	if len(d.image.Digests) > 0 && spec.Snapshot == "" {
		name := from
		if i := strings.LastIndexByte(from, ':'); i > strings.LastIndexByte(from, '/') {
			name = from[:i]
		}
		same := slices.IndexFunc(d.image.Digests, func(digest string) bool { return strings.HasPrefix(digest, name+"@") })
		d.comment("Its image was %s.", from)
		return d.image.Digests[max(same, 0)]
	}
	switch {
	case len(d.image.Names) > 0 && !slices.Contains(d.image.Names, from):
		from = d.image.Names[0]
	case d.image.ID != "" && len(d.image.Names) == 0:
		d.comment("No name leads to its image %s: give it one, and use the name here.", d.image.ID)
	case core.ImageFromPath(from):
		d.comment("It was launched from %s: push that image to a registry, and use its name here.", from)
		return "scratch"
	}
	switch {
	case spec.Dockerfile != "":
		d.comment("The base was built from %s. Push it to a registry to build this elsewhere.", spec.Dockerfile)
	case len(spec.Apt)+len(spec.Pip) > 0 || spec.Python != "":
		d.comment("The base has Python %s, apt packages %q and pip packages %q.", cmp.Or(spec.Python, "of its image"),
			spec.Apt, spec.Pip)
	}
	if d.image.ID != "" {
		d.comment("The base was %s. It has no digest at a registry.", d.image.ID)
	}
	return from
}

// plain is a word that every builder reads as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a value as ENV, WORKDIR and USER take it.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}

func word(value string) string {
	if plain.MatchString(value) {
		return value
	}
	return quoted(value)
}

// root is the user of the steps that change any file.
const root = "0"

// place writes WORKDIR and USER for the next lines, if they change.
func (d *dockerfile) place(workdir, user string) {
	if workdir != d.workdir && !core.HasControl(workdir) {
		d.line("WORKDIR %s", word(workdir))
		d.workdir = workdir
	}
	user = cmp.Or(user, root)
	if user != cmp.Or(d.user, root) && !core.HasControl(user) {
		d.line("USER %s", word(user))
		d.user = user
	}
}

// end writes what the sandbox runs, where and as whom.
func (d *dockerfile) end(sb core.Sandbox) {
	d.place(cmp.Or(sb.Spec.Workdir, d.image.Workdir, "/"), cmp.Or(sb.Spec.User, d.image.User))
	if len(sb.Spec.Command) == 0 {
		return
	}
	if len(d.image.Entrypoint) > 0 {
		d.line("ENTRYPOINT []") // a sandbox runs its command as it is
	}
	d.argv("CMD", sb.Spec.Command)
}

// command writes a journaled command, or the reason for its omission.
func (d *dockerfile) command(e core.Exec) {
	text := strings.Join(e.Command, " ")
	switch {
	case e.Damaged():
		d.comment("command %s is unknown: its entry in the journal is damaged", e.ID)
	case e.TTY:
		d.comment("an interactive session ran here: %s", text)
	case e.Exit == nil:
		d.comment("has not ended: %s", text)
	case e.Exit.Code != 0:
		d.comment("failed with code %d: %s", e.Exit.Code, text)
	case !d.replay:
		d.comment("ran: %s", text)
	default:
		d.place(cmp.Or(e.Workdir, "/"), e.User)
		d.argv("RUN", e.Command)
	}
}

// written writes a file that was written here. The text gets the present content of a small text file, since no earlier
// one is kept.
func (d *dockerfile) written(ctx context.Context, sb core.Sandbox, p core.Provider, name string) {
	if slices.Contains(d.inlined, name) {
		return
	}
	content, executable, ok := "", false, false
	if d.inline && path.IsAbs(name) && !core.HasControl(name) {
		content, executable, ok = smallText(ctx, sb, p, name)
	}
	if !ok {
		d.comment("sb write changed %s here", name)
		return
	}
	d.inlined = append(d.inlined, name)
	d.place(cmp.Or(sb.Spec.Workdir, d.image.Workdir, "/"), cmp.Or(sb.Spec.User, d.image.User))
	script := `mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"`
	if executable {
		script += ` && chmod +x "$1"`
	}
	d.argv("RUN", []string{"/bin/sh", "-c", script, "sh", name, content})
}

// smallText reads a file for a line of a Dockerfile. It returns false for other files than small texts.
func smallText(
	ctx context.Context, sb core.Sandbox, p core.Provider, name string,
) (text string, executable, ok bool) {
	fsys, ok := core.Optional[core.FileSystem](p)
	if !ok {
		return "", false, false
	}
	info, err := fsys.Stat(ctx, sb.ID, name)
	if err != nil || !info.Mode.IsRegular() {
		return "", false, false
	}
	content, err := fsys.ReadFile(ctx, sb.ID, name)
	if err != nil {
		return "", false, false
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(io.LimitReader(content, maxInline+1))
	ok = err == nil && len(data) <= maxInline && utf8.Valid(data) && !slices.Contains(data, 0)
	return string(data), info.Mode&0o111 != 0, ok
}

// recorded writes a command of the audit log, which has no exit codes.
func (d *dockerfile) recorded(args map[string]any) {
	words, ok := args["command"].([]any)
	if !ok {
		return
	}
	var argv []string
	for _, word := range words {
		argv = append(argv, fmt.Sprint(word))
	}
	if !d.replay {
		d.comment("ran: %s", strings.Join(argv, " "))
		return
	}
	d.argv("RUN", argv)
}

// diff names the files that differ from the image.
func (d *dockerfile) diff(changes []core.Change) {
	if len(changes) == 0 {
		return
	}
	d.comment("At the end, these files differed from the image:")
	for i, change := range changes {
		if i == maxDiff {
			d.comment("and %d more", len(changes)-maxDiff)
			break
		}
		d.comment("%s %s", change.Kind, change.Path)
	}
}

// files removes what the sandbox removed, and adds its other changes as an archive. added reports that there is one.
func (d *dockerfile) files(
	ctx context.Context, sb core.Sandbox, p core.Provider, changes []core.Change, to io.Writer,
) (added bool, err error) {
	fsys, ok := core.Optional[core.FileSystem](p)
	if !ok {
		return false, core.Errorf(core.KindUnsupported, "export", sb.Name, "%s does not read files", p.Name())
	}
	if asRoot, ok := p.(core.RootFiler); ok {
		fsys = asRoot.FilesAsRoot()
	}
	roots, deleted, err := differing(ctx, fsys, sb, changes)
	if err != nil {
		return false, err
	}
	d.remove(deleted)
	if len(roots) == 0 {
		return false, nil
	}
	tree := movedTree{sums: map[string]string{}, roots: roots}
	archive := tar.NewWriter(to)
	if err := tree.write(ctx, fsys, sb.ID, archive); err != nil {
		return false, err
	}
	if len(tree.unreadable) > 0 {
		return false, core.Errorf(
			core.KindUnauthorized, "export", tree.unreadable[0], "the sandbox's user cannot read it, nor %d other files",
			len(tree.unreadable)-1,
		).WithHint("make it readable first")
	}
	if text := tree.left.warning(); text != "" {
		d.comment("%s", text)
	}
	d.line("ADD %s /", DockerfileFiles)
	return true, archive.Close()
}

// differing returns the files to add and those to remove. A root with a slash at its end is the directory alone. Each
// directory above a change is one: its own change is not listed.
func differing(
	ctx context.Context, fsys core.FileSystem, sb core.Sandbox, changes []core.Change,
) (roots, deleted []string, err error) {
	whole, seen, listed := "", map[string]bool{}, map[string]bool{}
	for _, change := range changes {
		switch {
		case outside(sb.Spec, change.Path), whole != "" && below(whole, change.Path):
			continue
		case change.Kind == "deleted":
			if len(deleted) == 0 || !below(deleted[len(deleted)-1], change.Path) {
				deleted = append(deleted, change.Path)
			}
			continue
		}
		for i, c := range change.Path[1:] {
			if dir := change.Path[:i+1]; c == '/' && !seen[dir] && !mangled(dir) {
				seen[dir] = true
				roots = append(roots, dir+"/")
			}
		}
		if seen[change.Path] {
			continue
		}
		if mangled(change.Path) {
			dir, names, err := unnamed(ctx, fsys, sb.ID, change.Path)
			if err != nil {
				return nil, nil, err
			}
			if !listed[dir] {
				listed[dir] = true
				roots = append(roots, names...)
			}
		}
		info, err := fsys.Stat(ctx, sb.ID, change.Path)
		switch {
		case errors.Is(err, core.KindNotFound):
			continue // it was removed since
		case err != nil:
			return nil, nil, err
		case !info.Mode.IsDir():
			roots = append(roots, change.Path)
		case change.Kind == "added" && !holdsVolume(sb.Spec, change.Path):
			whole = change.Path
			roots = append(roots, change.Path)
		default:
			seen[change.Path] = true
			roots = append(roots, change.Path+"/")
		}
	}
	return roots, deleted, nil
}

// outside reports whether no image has the file: it is in a volume or in a file system of the kernel's.
func outside(spec core.Spec, name string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return below(dir, name) }) ||
		slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool {
			return v.Target != name && below(path.Clean(v.Target), name)
		})
}

// holdsVolume reports whether a volume is mounted at dir or below.
func holdsVolume(spec core.Spec, dir string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool { return below(dir, path.Clean(v.Target)) })
}

// remove removes files from the image, which needs rm.
func (d *dockerfile) remove(names []string) {
	if len(names) == 0 {
		return
	}
	d.place(d.workdir, root)
	command := []string{"rm", "-rf", "--"}
	argv, size := slices.Clone(command), 0
	for _, name := range names {
		if mangled(name) {
			d.comment("the sandbox has removed %q, whose name is not UTF-8: remove it yourself", name)
			continue
		}
		if size += len(name); size > maxRemoval && len(argv) > len(command) {
			d.argv("RUN", argv)
			argv, size = slices.Clone(command), len(name)
		}
		argv = append(argv, name)
	}
	if len(argv) > len(command) {
		d.argv("RUN", argv)
	}
}

// mangled reports whether a change's path may have lost bytes: providers list changes as JSON, which holds UTF-8 only.
func mangled(name string) bool { return strings.ContainsRune(name, utf8.RuneError) }

// unnamed returns the entries of the first directory of a mangled path that are not UTF-8, and that directory.
func unnamed(ctx context.Context, fsys core.FileSystem, id, name string) (dir string, names []string, err error) {
	whole := strings.IndexRune(name, utf8.RuneError)
	dir = path.Dir(name[:whole] + "x")
	entries, err := fsys.ReadDir(ctx, id, dir)
	for _, entry := range entries {
		if !utf8.ValidString(entry.Path) {
			names = append(names, entry.Path)
		}
	}
	return dir, names, gone(err)
}
