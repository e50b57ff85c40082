package service

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// MoveOptions are the target of a move and the changes to the spec.
type MoveOptions struct {
	// To is the name of the target's provider.
	To string
	// Name is the target's name; "" keeps the name, which requires another provider.
	Name string
	// Image replaces the image. Without it the move uses the same image, or the target provider's default where that is
	// unavailable.
	Image string
	// GPU replaces the GPU; nil keeps it.
	GPU *core.GPU
	// Secrets supplies the values of secrets again, because they cannot be read back.
	Secrets []core.Secret
	// Paths are moved completely, instead of the differences from the image. They are absolute.
	Paths []string
	// Keep leaves the source running.
	Keep     bool
	Progress core.ProgressFunc
}

// MoveResult is the result of a move.
type MoveResult struct {
	Source core.Sandbox `json:"source"`
	Target core.Sandbox `json:"target"`
	// Files and Bytes count the copied data. Digest is a SHA-256 over all files, equal on both sides.
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
	// Resumed means that this move continued an earlier one, Kept that the source still exists.
	Resumed bool `json:"resumed,omitempty"`
	Kept    bool `json:"kept,omitempty"`
	// Warnings list the differences from the source.
	Warnings []string `json:"warnings,omitempty"`
}

// usualPaths are the paths to move if a provider cannot list the differences from the image.
func usualPaths(workdir string) []string {
	paths := []string{"/root", "/home", "/srv", "/opt", "/app", "/tmp", "/var/tmp"}
	if workdir != "" && workdir != "/" && !slices.ContainsFunc(paths, func(p string) bool { return below(p, workdir) }) {
		paths = append(paths, path.Clean(workdir))
	}
	return paths
}

// Move recreates a sandbox at another provider: the same spec and image, with the files that differ from the image.
// Processes are not moved; the entry command restarts as a background command once the files are there. Move ends the
// source after it has read the target's files back and found them equal.
//
// A move that fails or is canceled ends its target. If the source has ended by then, the target has the only copy and
// stays. If the process of a move died, the next Move of the same sandbox to the same provider continues it.
// KindConflict: the sandbox does not run, or another Move of it is running.
func (s Sandboxes) Move(ctx context.Context, ref string, opts MoveOptions) (result MoveResult, err error) {
	args := map[string]any{"to": opts.To, "keep": opts.Keep}
	err = s.act(ctx, "move", ref, args, func(sb core.Sandbox, p core.Provider) error {
		if _, busy := s.underWay.LoadOrStore(sb.Ref(), true); busy {
			return core.Errorf(core.KindConflict, "move", sb.Name, "it is being moved already")
		}
		defer s.underWay.Delete(sb.Ref())
		m := &move{s: s.base, opts: opts, source: sb, result: MoveResult{Source: sb, Kept: opts.Keep}}
		err := m.run(ctx, p)
		args["target"] = m.result.Target.ID
		result = m.result
		return err
	})
	return result, err
}

// move is one move under way.
type move struct {
	s      *base
	opts   MoveOptions
	source core.Sandbox
	result MoveResult
	tree   movedTree
}

func (m *move) warn(format string, args ...any) {
	m.result.Warnings = append(m.result.Warnings, fmt.Sprintf(format, args...))
}

func (m *move) step(step string, done int64) {
	if m.opts.Progress != nil {
		m.opts.Progress(core.Progress{Step: step, Done: done})
	}
}

func (m *move) run(ctx context.Context, p core.Provider) error {
	if m.source.State != core.StateRunning {
		return core.Errorf(
			core.KindConflict, "move", m.source.Name, "the sandbox is %s; only a running one can be moved", m.source.State,
		)
	}
	if omitted := strings.Join(m.source.Omitted, ", "); omitted != "" {
		if !m.opts.Keep {
			return core.Errorf(
				core.KindUnsupported, "move", m.source.Name, "%s did not store its %s, which would be lost",
				m.source.Provider, omitted,
			).
				WithHint("--keep moves the rest and keeps the sandbox")
		}
		m.warn("its %s is unknown and was left out", omitted)
	}
	for _, name := range m.opts.Paths {
		if !path.IsAbs(name) || path.Clean(name) == "/" {
			return core.Invalid("path", "%q is not an absolute path below the root", name)
		}
	}
	for _, provider := range []string{m.source.Provider, m.opts.To} {
		if _, err := capable[core.FileSystem](m.s, provider, "move"); err != nil {
			return err
		}
	}
	lazy, err := m.s.provider(m.opts.To)
	if err != nil {
		return err
	}
	to, err := lazy.open()
	if err != nil {
		return err
	}
	if err := to.Check(ctx); err != nil { // it may report fewer capabilities
		return err
	}
	spec, err := m.spec(p, to)
	if err != nil {
		return err
	}
	// Check the placement first: a diff and a launch take time.
	placement, err := Sandboxes{m.s}.Explain(ctx, spec)
	if err != nil {
		return err
	}
	if placement.Chosen == "" {
		return m.s.refusal(placement, spec, nil)
	}
	roots, deleted, err := m.plan(ctx, p, spec)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, spec); err != nil {
		return err
	}
	if err := m.carry(ctx, p, to, spec, roots, deleted); err != nil {
		if m.ended(ctx, p) {
			err = errors.Join(err, fmt.Errorf("the files copied so far are in %s, and may be incomplete", m.result.Target.Ref()))
			return errors.Join(err, m.forget())
		}
		return errors.Join(err, m.undo(ctx))
	}
	if !m.opts.Keep {
		m.step("ending "+m.source.Name, 0)
		if err := (Sandboxes{m.s}).Terminate(ctx, m.source.Ref()); err != nil && !errors.Is(err, core.KindNotFound) {
			m.result.Kept = true
			m.warn("%s/%s could not be ended: %v", m.source.Provider, m.source.ID, err)
		}
	}
	return m.forget()
}

// carry copies the files, verifies them, and restarts the entry command.
func (m *move) carry(ctx context.Context, p, to core.Provider, spec core.Spec, roots []string, deleted []string) error {
	from, err := capable[core.FileSystem](m.s, m.source.Provider, "move")
	if err != nil {
		return err
	}
	into, err := capable[core.FileSystem](m.s, m.opts.To, "move")
	if err != nil {
		return err
	}
	m.tree = movedTree{report: func(done int64) { m.step("copying", done) }}
	if err := m.tree.copy(ctx, from, m.source.ID, into, m.result.Target.ID, roots, spec.User == ""); err != nil {
		return err
	}
	// The copy skips files that disappear. If the sandbox ended, they may have disappeared with it.
	if m.ended(ctx, p) {
		return core.Errorf(core.KindConflict, "move", m.source.Name, "it ended while it was copied")
	}
	for _, name := range deleted {
		if err := into.Remove(ctx, m.result.Target.ID, name, true); err != nil && !errors.Is(err, core.KindNotFound) {
			m.warn("%s could not be removed: %v", name, err)
		}
	}
	m.step("proving", 0)
	if err := m.tree.prove(ctx, into, m.result.Target.ID); err != nil {
		return err
	}
	for _, name := range m.tree.unreadable {
		m.warn("%s cannot be read there and was left out", name)
	}
	if left := m.tree.left.warning(); left != "" {
		m.warn("%s", left)
	}
	m.result.Files, m.result.Bytes, m.result.Digest = len(m.tree.sums), m.tree.bytes, m.tree.digest()
	if len(m.source.Spec.Command) == 0 {
		return nil
	}
	process, err := to.Exec(ctx, m.result.Target.ID, core.ExecSpec{Command: m.source.Spec.Command, Detach: true})
	if err != nil {
		return core.Wrap("move", "its command", err)
	}
	m.warn("its entry command was restarted as command %s: the sandbox continues when it exits", process.ID())
	return process.Close()
}

// begin launches the target, or finds the one of a move that was cut short.
func (m *move) begin(ctx context.Context, spec core.Spec) error {
	state, err := m.remembered()
	if err != nil {
		return err
	}
	if state.To != "" && !state.Owner.Gone() && state.Owner != m.s.owner {
		return core.Errorf(core.KindConflict, "move", m.source.Name, "it is being moved to %s already", state.To)
	}
	found, begun, err := m.s.moveTarget(ctx, state)
	switch {
	case err != nil:
		return err
	case begun && state.To != m.opts.To:
		return core.Errorf(core.KindConflict, "move", m.source.Name, "a move to %s was cut short", state.To).
			WithHint("continue it with: sb move %s --to %s", m.source.Name, state.To)
	case begun:
		m.result.Target, m.result.Resumed = found, true
		state.Owner, state.Target = m.s.owner, found.ID
		return m.remember(state)
	}
	// Written before the launch: after a crash in between, the name and the lease identify the target.
	state = moveState{Owner: m.s.owner, Source: m.source.Ref(), To: m.opts.To, Name: spec.Name, Begun: m.s.now().UTC()}
	if err := m.remember(state); err != nil {
		return err
	}
	target, err := Sandboxes{m.s}.Launch(ctx, spec, LaunchOptions{Progress: m.opts.Progress, Notice: func(text string) {
		m.warn("%s", text)
	}})
	if err != nil {
		return errors.Join(err, m.forget())
	}
	m.result.Target, state.Target = target, target.ID
	if err := m.remember(state); err != nil {
		return errors.Join(err, m.undo(ctx))
	}
	return nil
}

// ended reports whether the source has definitely ended. It ignores the end of ctx.
func (m *move) ended(ctx context.Context, p core.Provider) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
	defer cancel()
	sb, err := p.Get(ctx, m.source.ID)
	return err == nil && !sb.State.Live() || errors.Is(err, core.KindNotFound)
}

// undo ends the target as a separate recorded operation, because the target's cost depends on its end. It ignores the
// end of ctx.
func (m *move) undo(ctx context.Context) error {
	err := Sandboxes{m.s}.Terminate(context.WithoutCancel(ctx), m.result.Target.Ref())
	if err != nil && !errors.Is(err, core.KindNotFound) {
		return err // the saved state lets the next move end it
	}
	m.result.Target = core.Sandbox{}
	return m.forget()
}

// spec returns the spec of the target. It drops unsupported fields with a warning; if the user must decide, it returns
// an error.
func (m *move) spec(from, to core.Provider) (core.Spec, error) {
	spec := m.source.Spec.Clone()
	caps := to.Capabilities()
	if m.opts.Name == "" && m.opts.To == m.source.Provider {
		return spec, core.Errorf(core.KindUsage, "move", m.source.Name, "a move within %s needs a new name", m.opts.To).
			WithHint("add --name NAME")
	}
	spec.Provider, spec.Name, spec.Command, spec.Labels = m.opts.To, m.source.Name, nil, m.source.Labels
	fill(&spec.App, m.source.App)
	if m.opts.Name != "" {
		spec.Name = m.opts.Name
	}
	if m.opts.GPU != nil {
		spec.GPU = *m.opts.GPU
	}
	if !spec.GPU.IsZero() && !caps.Can(core.CapGPU) {
		return spec, core.Errorf(
			core.KindUnsupported, "move", m.source.Name, "%s has no GPUs, and the sandbox has %s", m.opts.To, spec.GPU,
		).WithHint(`add --gpu "" to go without`)
	}
	if err := m.image(&spec, from.Capabilities(), caps); err != nil {
		return spec, err
	}
	if err := m.secrets(&spec); err != nil {
		return spec, err
	}
	spec.Timeout = core.NoTimeout
	if left := m.source.Expires.Sub(m.s.now()); !m.source.Expires.IsZero() {
		spec.Timeout = core.Duration(max(left.Round(time.Second), time.Second))
	}
	for i := range spec.Ports {
		if m.opts.To != m.source.Provider {
			spec.Ports[i].Host = 0
		}
	}
	m.drop(&spec, caps)
	return spec, nil
}

// image makes sure that the target has an image to start from.
func (m *move) image(spec *core.Spec, from, to core.Capabilities) error {
	if m.opts.Image != "" {
		spec.Image, spec.Dockerfile, spec.Template, spec.Snapshot, spec.Checkpoint = m.opts.Image, "", "", "", ""
		return nil
	}
	if kept := spec.Snapshot + spec.Template + spec.Checkpoint; kept != "" && m.opts.To != m.source.Provider {
		return core.Errorf(
			core.KindUsage, "move", m.source.Name, "it was launched from %s, which only %s has", kept, m.source.Provider,
		).WithHint("add --image IMAGE")
	}
	if spec.Python != "" && slices.Contains(from.Images, spec.Image) {
		spec.Image = "" // not requested by the user: Python selects its own image
	}
	own := spec.Image == core.HostImage || core.ImageFromPath(spec.Image) ||
		slices.Contains(from.Images, spec.Image) && !from.Can(core.CapImages)
	if spec.Image != "" && !slices.Contains(to.Images, spec.Image) && (own || !to.Can(core.CapImages)) &&
		len(to.Images) > 0 {
		m.warn("%s has no image %s: it starts from %s", m.opts.To, spec.Image, to.Images[0])
		spec.Image = to.Images[0]
	}
	return nil
}

// secrets sets the supplied values of secrets.
func (m *move) secrets(spec *core.Spec) error {
	given := map[string]core.Secret{}
	for _, secret := range m.opts.Secrets {
		given[secret.Name] = secret
	}
	var missing []string
	for i, secret := range spec.Secrets {
		if again, ok := given[secret.Name]; ok {
			spec.Secrets[i] = again
			delete(given, secret.Name)
		} else if secret.Ref == "" {
			missing = append(missing, secret.Name)
		} else if m.opts.To != m.source.Provider {
			m.warn("secret %s is %s's own secret %q now", secret.Name, m.opts.To, secret.Ref)
		}
	}
	for _, secret := range m.opts.Secrets {
		if _, added := given[secret.Name]; added {
			spec.Secrets = append(spec.Secrets, secret)
		}
	}
	if len(missing) > 0 {
		return core.Errorf(
			core.KindUsage, "move", m.source.Name, "the values of secrets are not stored: %s must be passed again",
			strings.Join(missing, ", "),
		).
			WithHint("add --secret %s", strings.Join(missing, " --secret "))
	}
	return nil
}

// drop removes the fields that the target does not support, with a warning.
func (m *move) drop(spec *core.Spec, caps core.Capabilities) {
	for _, need := range spec.NeededFor() {
		f := core.FieldNamed(need.Field)
		left := f.Limit || slices.Contains([]string{"persist", "modal", "pull", "tmpfs", "dns"}, f.Name)
		if left && need.Capability != core.CapTimeout && !caps.Can(need.Capability) {
			m.warn("%s does not support %s; it was left out", m.opts.To, need.Flag)
			f.Clear(spec)
		}
	}
	for _, v := range spec.Volumes {
		m.warn("volume %s at %s is not moved", v.Source, v.Target)
	}
	spec.Volumes = nil
}

// plan lists the paths to copy, each with its tree, and the deleted paths.
func (m *move) plan(ctx context.Context, p core.Provider, spec core.Spec) (roots, deleted []string, err error) {
	m.step("comparing with the image", 0)
	skip := func(name string) bool {
		for _, v := range m.source.Spec.Volumes {
			if below(v.Target, name) {
				return true
			}
		}
		return slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/run"}, func(dir string) bool {
			return below(dir, name)
		})
	}
	if len(m.opts.Paths) > 0 {
		return slices.DeleteFunc(cleaned(m.opts.Paths), skip), nil, nil
	}
	changes, err := m.changes(ctx)
	if errors.Is(err, core.KindUnsupported) {
		paths := usualPaths(spec.Workdir)
		m.warn(
			"the differences from the image are unknown (%v): only %s were moved; --path names others", err,
			strings.Join(paths, " "),
		)
		return slices.DeleteFunc(paths, skip), nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, change := range changes {
		switch {
		case skip(change.Path):
		case change.Kind == "deleted":
			deleted = append(deleted, change.Path)
		case change.Kind == "added" && len(roots) > 0 && below(roots[len(roots)-1], change.Path) &&
			!strings.HasSuffix(roots[len(roots)-1], "/"):
			// It comes with the directory above it.
		default:
			name, err := m.rootOf(ctx, p, change)
			if err != nil {
				return nil, nil, err
			}
			if name != "" {
				roots = append(roots, name)
			}
		}
	}
	return roots, deleted, nil
}

// changes returns the source's differences from the image. KindUnsupported: the provider cannot list them.
func (m *move) changes(ctx context.Context) ([]core.Change, error) {
	differ, err := capable[core.Differ](m.s, m.source.Provider, "diff")
	if err != nil {
		return nil, err
	}
	return differ.Diff(ctx, m.source.ID)
}

// rootOf returns the root to copy for a change: a path with all below it. For a directory that only changed itself, the
// path ends with a slash.
func (m *move) rootOf(ctx context.Context, p core.Provider, change core.Change) (string, error) {
	if change.Kind == "added" {
		return change.Path, nil
	}
	fsys, err := capable[core.FileSystem](m.s, p.Name(), "move")
	if err != nil {
		return "", err
	}
	info, err := fsys.Stat(ctx, m.source.ID, change.Path)
	switch {
	case errors.Is(err, core.KindNotFound):
		return "", nil // it was removed since
	case err != nil:
		return "", err
	case info.Mode.IsDir():
		return change.Path + "/", nil
	}
	return change.Path, nil
}

func cleaned(paths []string) []string {
	var list []string
	for _, name := range paths {
		list = append(list, path.Clean(name))
	}
	return list
}

// below reports whether name is dir or in it. Both are clean paths, but dir may end in a slash.
func below(dir, name string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return name == dir || strings.HasPrefix(name, dir+"/")
}
