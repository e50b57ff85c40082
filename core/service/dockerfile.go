package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

// maxDiff bounds how many changed files a Dockerfile names.
const maxDiff = 200

// DockerfileOptions are the options of an exported Dockerfile that the core cannot find itself.
type DockerfileOptions struct {
	// Files were written into the sandbox. Each comes before the commands that began after it.
	Files []DockerfileFile
	// Clean hides secret values; nil hides none.
	Clean *redact.Redactor
}

// DockerfileFile is a text file with an absolute path.
type DockerfileFile struct {
	Path, Content string
	Executable    bool
	// Written is when it was.
	Written time.Time
}

// ExportDockerfile writes a Dockerfile that repeats the manual changes of a sandbox. It begins with the source of the
// launch and repeats the commands that succeeded. They come from the journal, or from the audit log if the provider
// keeps no journal.
//
// Comments name the parts that a Dockerfile cannot repeat: other pushed or written files, values of secrets, and the
// rest of the provider's diff.
func (s Sandboxes) ExportDockerfile(ctx context.Context, ref string, opts DockerfileOptions) (string, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return "", err
	}
	d := &dockerfile{clean: opts.Clean}
	if len(opts.Files) > 0 {
		d.line("# syntax=docker/dockerfile:1") // that of files within it, and the first line
	}
	d.comment("The changes of sandbox %s (%s), in their order.", sb.Name, sb.ID)
	d.begin(sb)
	steps, err := s.steps(ctx, sb, p, opts.Files)
	if err != nil {
		return "", about("export", ref, sb, err)
	}
	for _, step := range steps {
		step.write(d)
	}
	if differ, ok := p.(core.Differ); ok {
		changes, err := differ.Diff(ctx, sb.ID)
		if err != nil {
			return "", about("export", ref, sb, err)
		}
		d.diff(changes)
	}
	d.place(sb.Spec.Workdir, sb.Spec.User)
	if len(sb.Spec.Command) > 0 {
		d.argv("CMD", sb.Spec.Command)
	}
	return d.text.String(), nil
}

// step is one operation in a sandbox.
type step struct {
	at    time.Time
	write func(*dockerfile)
}

// steps returns the steps of the sandbox, oldest first.
func (s *base) steps(ctx context.Context, sb core.Sandbox, p core.Provider, files []DockerfileFile) ([]step, error) {
	var list []step
	for _, file := range files {
		list = append(list, step{file.Written, func(d *dockerfile) { d.file(file) }})
	}
	journalled := false
	if journal, ok := p.(core.Journaler); ok {
		execs, err := journal.Execs(ctx, sb.ID)
		if err != nil {
			return nil, err
		}
		journalled = true
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
			if !journalled {
				list = append(list, step{record.Time, func(d *dockerfile) { d.recorded(record.Args) }})
			}
		case "push", "write", "mkdir", "rm":
			if record.Op == "write" && slices.ContainsFunc(files, func(file DockerfileFile) bool {
				return file.Path == record.Args["path"]
			}) {
				continue
			}
			list = append(list, step{record.Time, func(d *dockerfile) {
				d.comment("sb %s changed %v here: COPY what it needs", record.Op, record.Args["path"])
			}})
		}
	}
	slices.SortStableFunc(list, func(a, b step) int { return a.at.Compare(b.at) })
	return list, nil
}

// dockerfile is the text under way, and where the next line would run.
type dockerfile struct {
	text          strings.Builder
	clean         *redact.Redactor
	workdir, user string
}

func (d *dockerfile) line(format string, args ...any) { fmt.Fprintf(&d.text, format+"\n", args...) }

// comment writes a comment as one line, whatever it contains.
func (d *dockerfile) comment(format string, args ...any) {
	d.line("# %s", strings.Join(strings.Fields(d.clean.Clean(fmt.Sprintf(format, args...))), " "))
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

// file writes a file's content.
func (d *dockerfile) file(file DockerfileFile) {
	if strings.ContainsFunc(file.Path, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"'$\\`", r)
	}) {
		d.comment("%s was written here: COPY it, since its name cannot stand in a line of its own", file.Path)
		return
	}
	end := "EOF"
	for strings.Contains(file.Content, end) {
		end += "_"
	}
	mode := ""
	if file.Executable {
		mode = "--chmod=755 "
	}
	content := d.clean.Clean(file.Content)
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	d.line("COPY %s<<%q %s\n%s%s", mode, end, file.Path, content, end)
}

// begin writes the fields of the launch.
func (d *dockerfile) begin(sb core.Sandbox) {
	spec := sb.Spec
	if spec.Dockerfile != "" {
		d.comment("It was built from %s; put that file's lines in the place of the next one.", spec.Dockerfile)
	}
	from := cmp.Or(spec.Snapshot, spec.Image, sb.Image, "scratch")
	switch {
	case core.ImageFromPath(from):
		d.comment("It was launched from %s; push that image to a registry, and name it here.", from)
		from = "scratch"
	case from == core.HostImage:
		d.comment("It saw the programs of the machine it ran on; choose the image that is most like it.")
		from = "debian:stable-slim"
	}
	d.line("FROM %s", from)
	if spec.Python != "" {
		d.comment("Python %s", spec.Python)
	}
	if len(spec.Apt) > 0 {
		d.argv(
			"RUN",
			append(
				[]string{
					"sh", "-c", `apt-get update && apt-get install -y --no-install-recommends -- "$@" && rm -rf /var/lib/apt/lists/*`,
					"sh",
				},
				spec.Apt...,
			),
		)
	}
	if len(spec.Pip) > 0 {
		d.argv("RUN", append([]string{"python3", "-m", "pip", "install", "--no-cache-dir", "--"}, spec.Pip...))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if strings.ContainsAny(spec.Env[name], "\r\n") {
			d.comment("ENV %s has several lines: set it where the image is run", name)
			continue
		}
		d.line("ENV %s=%s", name, quoted(spec.Env[name]))
	}
	for _, secret := range spec.Secrets {
		d.comment("secret %s: give it where the image is run", secret.Name)
	}
	d.place(spec.Workdir, spec.User)
}

// quoted is a value as ENV takes it.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}

// place writes WORKDIR and USER for the next lines, if they change.
func (d *dockerfile) place(workdir, user string) {
	if workdir != "" && workdir != d.workdir && !core.HasControl(workdir) {
		d.line("WORKDIR %s", workdir)
		d.workdir = workdir
	}
	if user != "" && user != d.user && !core.HasControl(user) {
		d.line("USER %s", user)
		d.user = user
	}
}

// command writes a journalled command, or the reason for its omission.
func (d *dockerfile) command(e core.Exec) {
	switch {
	case e.Damaged():
		d.comment("command %s is not known: its entry in the journal is damaged", e.ID)
	case e.TTY:
		d.comment("somebody worked at a terminal here: %s", strings.Join(e.Command, " "))
	case e.Exit == nil:
		d.comment("has not ended: %s", strings.Join(e.Command, " "))
	case e.Exit.Code != 0:
		d.comment("failed with code %d: %s", e.Exit.Code, strings.Join(e.Command, " "))
	default:
		d.place(e.Workdir, e.User)
		d.argv("RUN", e.Command)
	}
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
	d.argv("RUN", argv)
}

// diff names the files that differ from the source of the launch.
func (d *dockerfile) diff(changes []core.Change) {
	if len(changes) == 0 {
		return
	}
	d.comment("In the end these files differed from the image:")
	for i, change := range changes {
		if i == maxDiff {
			d.comment("and %d more", len(changes)-maxDiff)
			break
		}
		d.comment("%s %s", change.Kind, change.Path)
	}
}
