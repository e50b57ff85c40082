package tui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/core/transfer"
)

const (
	// callTimeout bounds what is asked on the side: samples, journals, directories.
	callTimeout = 15 * time.Second
	// eventLimit is how many events are kept for a dashboard that lags.
	eventLimit = 1000
	// eachTimeout bounds what is done to one of several sandboxes.
	eachTimeout = time.Minute
	// sampleAtOnce is how many sandboxes of one provider are measured at the same time.
	sampleAtOnce = 8
	// closeTimeout is how long the end waits for what is under way.
	closeTimeout = 5 * time.Second
)

// effects is all that the dashboard does outside of itself. Each method returns a command that
// waits, and whose message tells the result.
type effects struct {
	ctx     context.Context //nolint:containedctx // it is the dashboard's life, which every command shares
	cancel  context.CancelFunc
	service *service.Service
	options Options

	events   *feed[core.Event]
	progress *feed[jobProgress]

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

func newEffects(ctx context.Context, options Options) *effects {
	ctx, cancel := context.WithCancel(ctx)
	return &effects{
		ctx: ctx, cancel: cancel, service: options.Service, options: options,
		events: newFeed(func(kept, added []core.Event) []core.Event {
			kept = append(kept, added...)
			return kept[max(0, len(kept)-eventLimit):]
		}),
		progress: newFeed(mergeProgress),
	}
}

// close ends everything and waits for it, though not for ever: a provider may not answer.
func (fx *effects) close() error {
	fx.mu.Lock()
	fx.closed = true
	fx.mu.Unlock()
	fx.cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		fx.busy.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-timer.C:
		return core.Errorf(core.KindTimeout, "ui", "", "something that the dashboard had begun did not end within %s", closeTimeout)
	}
}

// enter counts a goroutine; false says that the dashboard has ended.
func (fx *effects) enter() bool {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.closed {
		return false
	}
	fx.busy.Add(1)
	return true
}

// do makes a command of work that ends with the dashboard.
func (fx *effects) do(work func(ctx context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !fx.enter() {
			return nil
		}
		defer fx.busy.Done()
		return work(fx.ctx)
	}
}

// ask is do with a time limit.
func (fx *effects) ask(work func(ctx context.Context) tea.Msg) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return work(ctx)
	})
}

// after sends a message later.
func (fx *effects) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return msg
		case <-ctx.Done():
			return nil
		}
	})
}

func (fx *effects) tick() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return tickMsg{fx.options.Now()}
		case <-ctx.Done():
			return nil
		}
	})
}

func (fx *effects) capabilities(providers []string) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		all := capabilitiesMsg{}
		for _, name := range providers {
			if caps, err := fx.service.Capabilities(name); err == nil {
				all[name] = caps
			}
		}
		return all
	})
}

func (fx *effects) list(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		listing, err := fx.service.List(ctx, core.ListFilter{Provider: provider, All: true})
		if err != nil {
			listing.Failures = []core.ProviderFailure{{Provider: provider, Kind: core.KindOf(err), Error: err.Error(), Hint: core.HintOf(err)}}
		}
		return listedMsg{provider, listing}
	})
}

func (fx *effects) check(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		return checkedMsg{provider, fx.status(ctx, provider, false)}
	})
}

// diagnose looks closer at a provider.
func (fx *effects) diagnose(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg { return findingsMsg{fx.status(ctx, provider, true)} })
}

func (fx *effects) status(ctx context.Context, provider string, findings bool) service.ProviderStatus {
	status, err := fx.service.ProviderStatus(ctx, provider, findings)
	if err != nil {
		return service.ProviderStatus{Name: provider, Error: err.Error(), Hint: core.HintOf(err)}
	}
	return status
}

// sample measures sandboxes of one provider. Those that cannot be measured are left out.
func (fx *effects) sample(provider string, ids []string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found := make([]*core.Stats, len(ids))
		slots := make(chan struct{}, sampleAtOnce)
		var all sync.WaitGroup
		for i, id := range ids {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if stats, err := fx.service.Stats(ctx, id); err == nil {
					stats.Sandbox = id
					found[i] = &stats
				}
			})
		}
		all.Wait()
		msg := sampledMsg{provider: provider}
		for _, stats := range found {
			if stats != nil {
				msg.stats = append(msg.stats, *stats)
			}
		}
		return msg
	})
}

// watch subscribes to events for as long as the dashboard lives.
func (fx *effects) watch() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		for ctx.Err() == nil {
			for event, err := range fx.service.Events(ctx) {
				if err == nil {
					fx.events.put(event)
				}
			}
			// It ends before its time only when events were lost.
			fx.events.put(core.Event{})
			timer := time.NewTimer(time.Second)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		return nil
	})
}

func (fx *effects) nextEvents() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		batch, open := fx.events.take(ctx)
		if !open {
			return nil
		}
		msg := eventsMsg{lost: len(batch) >= eventLimit}
		for _, event := range batch {
			if event.Type == "" {
				msg.lost = true
				continue
			}
			msg.events = append(msg.events, event)
		}
		return msg
	})
}

// attach finds the sandbox to begin with.
func (fx *effects) attach(ref string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		box, err := fx.service.Resolve(ctx, ref)
		return attachedMsg{box, err}
	})
}

// openLog begins to read a command's output.
func (fx *effects) openLog(gen int, sandbox, exec string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		if !fx.enter() {
			return nil
		}
		ctx, cancel := context.WithCancel(ctx)
		log := newLogFeed(cancel)
		go func() {
			defer fx.busy.Done()
			log.read(ctx, fx.service, sandbox, exec)
		}()
		return logOpenedMsg{gen, log}
	})
}

func (fx *effects) nextLog(gen int, log *logFeed) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		batch, open := log.take(ctx)
		return logMsg{gen, batch, open}
	})
}

func (fx *effects) closeLog(log *logFeed) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		log.cancel()
		return nil
	})
}

func (fx *effects) execs(gen int, sandbox string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		execs, err := fx.service.Execs(ctx, sandbox)
		return execsMsg{gen, execs, err}
	})
}

func (fx *effects) readDir(gen int, sandbox, path string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		infos, err := fx.service.ReadDir(ctx, sandbox, path)
		return dirMsg{gen, path, infos, err}
	})
}

// preview reads the beginning of a file. Of a link to a directory it is what that holds.
func (fx *effects) preview(gen int, sandbox string, info core.FileInfo) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		p := preview{info: info}
		content, err := fx.service.ReadFile(ctx, sandbox, info.Path)
		if err == nil {
			var head []byte
			head, err = io.ReadAll(io.LimitReader(content, maxPreview))
			_ = content.Close() // what was read is what counts
			p.describe(head)
		}
		if err != nil && info.Mode&fs.ModeSymlink != 0 {
			if infos, dirErr := fx.service.ReadDir(ctx, sandbox, info.Path); dirErr == nil {
				return dirMsg{gen, info.Path, infos, nil}
			}
		}
		p.err = err
		return previewMsg{gen, p}
	})
}

func (fx *effects) history(gen int, sandbox string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		var records []service.AuditRecord
		for record, err := range fx.service.History(ctx, service.HistoryFilter{Sandbox: sandbox}) {
			if err != nil {
				return historyMsg{gen, nil, err}
			}
			if records = append(records, record); len(records) > 2*maxHistory {
				records = append(records[:0], records[len(records)-maxHistory:]...)
			}
		}
		return historyMsg{gen, records[max(0, len(records)-maxHistory):], nil}
	})
}

// network asks for what a sandbox was refused, where that is known, and where its ports are.
func (fx *effects) network(gen int, box core.Sandbox, denials bool) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found := network{known: true}
		if denials {
			found.denials, found.err = fx.service.Denials(ctx, box.ID)
		}
		if publishes(box) {
			found.tunnels, found.tunnelsErr = fx.service.Tunnels(ctx, box.ID)
		}
		return networkMsg{gen, found}
	})
}

// setNetwork changes where a sandbox may connect to.
func (fx *effects) setNetwork(j *job, box core.Sandbox, network core.Network) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		changed, err := fx.service.SetNetwork(ctx, box.ID, network)
		return box.Name + " may reach " + policyText(changed.Spec.Network), nil, err
	})
}

// sized finds out what the files of persistent sandboxes take.
func (fx *effects) sized(boxes []core.Sandbox) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg { return sizedMsg{fx.service.Sized(ctx, boxes)} })
}

func (fx *effects) tunnels(box core.Sandbox) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		tunnels, err := fx.service.Tunnels(ctx, box.ID)
		return tunnelsMsg{box, tunnels, err}
	})
}

// explain asks where a spec would run.
func (fx *effects) explain(seq int, spec core.Spec) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		placement, err := fx.service.Explain(ctx, spec)
		return explainedMsg{seq, placement, err}
	})
}

func (fx *effects) templates() tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		if fx.options.Templates == nil {
			return templatesMsg{}
		}
		templates, err := fx.options.Templates()
		return templatesMsg{templates, err}
	})
}

// each does something to several sandboxes, a few at once, and joins what fails.
func (fx *effects) each(ctx context.Context, what string, boxes []core.Sandbox, report core.ProgressFunc, work func(context.Context, core.Sandbox) error) error {
	failed := make([]error, len(boxes))
	slots := make(chan struct{}, sampleAtOnce)
	var all sync.WaitGroup
	var done atomic.Int64
	for i, box := range boxes {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, eachTimeout)
			defer cancel()
			if err := work(ctx, box); err != nil {
				failed[i] = core.Wrap(what, box.Name, err)
			}
			if n := done.Add(1); report != nil {
				report(core.Progress{Step: fmt.Sprintf("%d of %d", n, len(boxes))})
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// kept lists what the providers keep on a shelf.
func (fx *effects) kept(s shelf) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found, err := fx.shelved(ctx, s.noun)
		return keptMsg{s.noun, found, err}
	})
}

// shelved asks the providers for what they keep of a kind.
func (fx *effects) shelved(ctx context.Context, noun string) (service.Inventory[kept], error) {
	switch noun {
	case "volume":
		found, err := fx.service.Volumes(ctx, "")
		return shelve(found, err, func(v core.VolumeInfo) kept { return kept{v.Name, v.Provider, "", v.Size, v.Created} })
	case "secret":
		found, err := fx.service.Secrets(ctx, "")
		return shelve(found, err, func(s core.SecretInfo) kept {
			return kept{s.Name, s.Provider, strings.Join(s.Keys, " "), 0, s.Created}
		})
	case "image":
		found, err := fx.service.Images(ctx, "")
		return shelve(found, err, func(i core.ImageInfo) kept {
			return kept{append(i.Names, i.ID)[0], i.Provider, i.ID, i.Size, i.Created}
		})
	case "snapshot":
		found, err := fx.service.Snapshots(ctx, "")
		return shelve(found, err, func(s core.Snapshot) kept {
			return kept{s.ID, s.Provider, strings.TrimSpace(s.Name + " " + s.Path), s.Size, s.Created}
		})
	case "checkpoint":
		found, err := fx.service.Checkpoints(ctx, "")
		return shelve(found, err, func(c core.Checkpoint) kept {
			return kept{c.Name, c.Provider, "of " + c.Of, c.Size, c.Created}
		})
	case "app":
		found, err := fx.service.Apps(ctx, "")
		return shelve(found, err, func(a core.AppInfo) kept {
			return kept{a.Name, a.Provider, strings.TrimSpace(plural(a.Sandboxes, "sandbox", "sandboxes") + " " + a.State), 0, a.Created}
		})
	case "environment":
		found, err := fx.service.Environments(ctx, "")
		return shelve(found, err, func(e core.EnvironmentInfo) kept {
			return kept{e.Name, e.Provider, map[bool]string{true: "the one in use"}[e.Current], 0, time.Time{}}
		})
	}
	return service.Inventory[kept]{}, core.Errorf(core.KindInternal, "ui", noun, "nothing is known of it")
}

// shelve writes what a provider keeps in the words of a shelf, by name.
func shelve[T any](found service.Inventory[T], err error, as func(T) kept) (service.Inventory[kept], error) {
	all := service.Inventory[kept]{Failures: found.Failures}
	for _, item := range found.Items {
		all.Items = append(all.Items, as(item))
	}
	slices.SortStableFunc(all.Items, func(a, b kept) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.provider, b.provider)) })
	return all, err
}

// takeOff removes something from a shelf.
func (fx *effects) takeOff(ctx context.Context, noun string, k kept) error {
	switch noun {
	case "volume":
		return fx.service.RemoveVolume(ctx, k.provider, k.name)
	case "secret":
		return fx.service.RemoveSecret(ctx, k.provider, k.name)
	case "image":
		return fx.service.RemoveImage(ctx, k.provider, k.name)
	case "snapshot":
		return fx.service.RemoveSnapshot(ctx, k.provider, k.name)
	case "checkpoint":
		return fx.service.RemoveCheckpoint(ctx, k.provider, k.name)
	case "app":
		return fx.service.StopApp(ctx, k.provider, k.name, false)
	case "environment":
		return fx.service.RemoveEnvironment(ctx, k.provider, k.name)
	}
	return core.Errorf(core.KindInternal, "ui", noun, "nothing is known of it")
}

// makeVolume makes an empty volume.
func (fx *effects) makeVolume(j *job, s shelf, provider, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		made, err := fx.service.CreateVolume(ctx, provider, name, core.VolumeOptions{})
		return "volume " + made.Name + " is made on " + made.Provider, shelfMsg{s.noun}, err
	})
}

// drop removes something from a shelf.
func (fx *effects) drop(j *job, s shelf, k kept) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return s.noun + " " + k.name + " " + s.removed, shelfMsg{s.noun}, fx.takeOff(ctx, s.noun, k)
	})
}

// start starts a command in a sandbox and leaves it running.
func (fx *effects) start(j *job, box core.Sandbox, command []string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		process, err := fx.service.Exec(ctx, box.ID, core.ExecSpec{Command: command, Detach: true})
		if err != nil {
			return "", nil, err
		}
		id := process.ID()
		return "started as " + id + " in " + box.Name, startedMsg{box.ID, id}, process.Close()
	})
}

func (fx *effects) kill(j *job, box core.Sandbox, exec string, signal int) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return fmt.Sprintf("signal %d sent to %s", signal, exec), nil, fx.service.Kill(ctx, box.ID, exec, signal)
	})
}

func (fx *effects) remove(j *job, box core.Sandbox, info core.FileInfo, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return info.Path + " removed", then, fx.service.Remove(ctx, box.ID, info.Path, info.Mode.IsDir())
	})
}

// run makes a command of a job.
func (fx *effects) run(j *job, work func(ctx context.Context, report core.ProgressFunc) (text string, then tea.Msg, err error)) tea.Cmd {
	ctx, cancel := context.WithCancel(fx.ctx)
	j.cancel = cancel
	id := j.id
	return fx.do(func(context.Context) tea.Msg {
		defer cancel()
		text, then, err := work(ctx, func(p core.Progress) { fx.progress.put(jobProgress{id, p}) })
		return jobDoneMsg{id: id, err: err, text: text, then: then}
	})
}

func (fx *effects) nextProgress() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		batch, open := fx.progress.take(ctx)
		if !open {
			return nil
		}
		return progressMsg(batch)
	})
}

// goTo shows a sandbox that was made.
func goTo(made core.Sandbox, err error) tea.Msg {
	if err != nil {
		return nil
	}
	return attachedMsg{box: made}
}

func (fx *effects) launch(j *job, spec core.Spec) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		box, err := fx.service.Launch(ctx, spec, service.LaunchOptions{Progress: report})
		return "", goTo(box, err), err // its event tells
	})
}

func (fx *effects) snapshot(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		kept, err := fx.service.Snapshot(ctx, box.ID, core.SnapshotOptions{Name: name})
		return "the snapshot of " + box.Name + " is " + kept.ID, nil, err
	})
}

func (fx *effects) fork(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		fork, err := fx.service.Fork(ctx, box.ID, service.ForkOptions{Name: name})
		return fork.Name + " goes on from where " + box.Name + " was", goTo(fork, err), err
	})
}

func (fx *effects) move(j *job, box core.Sandbox, to string, keep bool) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		moved, err := fx.service.Move(ctx, box.ID, service.MoveOptions{To: to, Keep: keep, Progress: report})
		return box.Name + " is on " + to + " now", goTo(moved.Target, err), err
	})
}

func (fx *effects) checkpoint(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		made, err := fx.service.Checkpoint(ctx, box.ID, name)
		return box.Name + " is kept as " + made.Name + ", " + made.Size.String(), nil, err
	})
}

func (fx *effects) copy(j *job, from, to transfer.Endpoint, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		result, err := transfer.Copy(ctx, fx.service, transfer.Request{From: from, To: to, Progress: report})
		text := fmt.Sprintf("%s, %s copied to %s", plural(result.Files, "file", "files"), core.Bytes(result.Bytes), to.Path)
		if len(result.Warnings) > 0 {
			text += "; " + strings.Join(result.Warnings, "; ")
		}
		return text, then, err
	})
}

// shell hands the terminal over to a shell in a sandbox.
func (fx *effects) shell(box core.Sandbox, command []string) tea.Cmd {
	return tea.Exec(&foreground{run: func() error { return fx.options.Shell(fx.ctx, box.ID, command) }}, func(err error) tea.Msg {
		return shellEndedMsg{box.Name, err}
	})
}

// aside hands the terminal over to something that needs it for a moment.
func (fx *effects) aside(run func() error) tea.Cmd {
	return tea.Exec(&foreground{run: run}, func(err error) tea.Msg { return asideOverMsg{err} })
}

// nextAside waits for the next that comes from outside.
func (fx *effects) nextAside() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		select {
		case run := <-fx.options.Asides: // nil brings none
			return asideMsg{run}
		case <-ctx.Done():
			return nil
		}
	})
}

// afterOthers takes back what a program may have left of the terminal and what would keep the dashboard from drawing: the
// origin and the margins that lines are counted and scrolled in, columns that are pushed, a width that does not
// wrap, other characters, and black for white.
const afterOthers = ansi.ResetModeOrigin + "\x1b[r" + ansi.ResetModeLeftRightMargin + ansi.ResetModeInsertReplace + ansi.SetModeAutoWrap +
	"\x1b(B\x0f" + "\x1b[?5l"

// redraw makes the terminal the dashboard's again after something else had it.
func redraw() tea.Cmd { return tea.Sequence(tea.Raw(afterOthers), tea.ClearScreen) }

// foreground runs something that has the terminal for itself.
type foreground struct{ run func() error }

// foregroundLeast is how long something has the terminal at least. Bubble Tea 2.0.9 stops the clock of its
// renderer a moment after it has released the terminal; one that is restored before that never draws again.
const foregroundLeast = 250 * time.Millisecond

// Run implements tea.ExecCommand.
func (f *foreground) Run() error {
	least := time.NewTimer(foregroundLeast)
	err := f.run()
	<-least.C
	return err
}

// SetStdin implements tea.ExecCommand: what runs has the streams already.
func (*foreground) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (*foreground) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (*foreground) SetStderr(io.Writer) {}

// edit is a file that is being edited on this machine.
type edit struct {
	box   core.Sandbox
	info  core.FileInfo
	local string // the copy
	old   []byte
}

// maxEdit is how large a file may be that is edited.
const maxEdit = 8 << 20

// fetch brings a file here, to be edited.
func (fx *effects) fetch(box core.Sandbox, info core.FileInfo) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		fail := func(err error) tea.Msg { return doneMsg{what: "edit", err: err} }
		// The list that info is from may be old by now.
		info, err := fx.service.Stat(ctx, box.ID, info.Path)
		if err != nil {
			return fail(err)
		}
		content, err := fx.service.ReadFile(ctx, box.ID, info.Path)
		if err != nil {
			return fail(err)
		}
		old, err := io.ReadAll(io.LimitReader(content, maxEdit+1))
		if err := errors.Join(err, content.Close()); err != nil {
			return fail(err)
		}
		if len(old) > maxEdit {
			return fail(core.Errorf(core.KindUsage, "edit", info.Path, "it is larger than %s", core.Bytes(maxEdit)).WithHint("pull it, edit it, and push it"))
		}
		dir, err := os.MkdirTemp("", "sb-edit-")
		if err != nil {
			return fail(err)
		}
		local := filepath.Join(dir, filepath.Base(filepath.Clean("/"+info.Path)))
		if err := os.WriteFile(local, old, 0o600); err != nil {
			return fail(errors.Join(err, os.RemoveAll(dir)))
		}
		return editReadyMsg{edit{box, info, local, old}}
	})
}

// editor hands the terminal over to the editor.
func (fx *effects) editor(e edit) tea.Cmd {
	run := func() error { return fx.options.Edit(fx.ctx, e.local) }
	return tea.Exec(&foreground{run: run}, func(err error) tea.Msg { return editedMsg{e, err} })
}

// putBack writes what was edited back and removes the copy. When it cannot be written the copy stays.
func (fx *effects) putBack(j *job, e edit, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		kept := func(err error) (string, tea.Msg, error) {
			return "", then, &core.Error{Kind: core.KindOf(err), Op: "edit", Subject: e.info.Path, Err: err, Hint: "your text is in " + e.local}
		}
		text, err := os.ReadFile(e.local)
		if err != nil {
			return kept(err)
		}
		said := e.info.Path + " is unchanged"
		if !bytes.Equal(text, e.old) {
			now, err := fx.service.Stat(ctx, e.box.ID, e.info.Path)
			if err == nil && !now.ModTime.Equal(e.info.ModTime) {
				err = core.Errorf(core.KindConflict, "edit", e.info.Path, "it was changed in the sandbox meanwhile")
			}
			if err == nil {
				err = fx.service.WriteFile(ctx, e.box.ID, e.info.Path, bytes.NewReader(text), core.WriteOptions{})
			}
			if err != nil {
				return kept(err)
			}
			said = e.info.Path + " written"
		}
		return said, then, os.RemoveAll(filepath.Dir(e.local))
	})
}

// openPatience is how long an opener has to say that it cannot: some stay for as long as the browser.
const openPatience = 3 * time.Second

// openURL shows a page in the browser of this machine's desktop. The browser outlives the dashboard.
func (fx *effects) openURL(url string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		opener := "xdg-open"
		if runtime.GOOS == "darwin" {
			opener = "open"
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), opener, url)
		err := cmd.Start()
		if err == nil {
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }() // it ends with the opener
			timer := time.NewTimer(openPatience)
			defer timer.Stop()
			select {
			case err = <-ended:
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if err != nil {
			err = core.Errorf(core.KindUnavailable, "open", url, "no browser was opened: %w", err).WithHint("the address was copied to the clipboard")
		}
		return doneMsg{what: "open", text: url + " opened", err: err}
	})
}

// saveText writes text to a file that does not exist yet.
func (fx *effects) saveText(path, text string) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = io.Copy(f, strings.NewReader(text))
			err = errors.Join(err, f.Close())
		}
		return doneMsg{what: "save", text: "saved to " + path, err: err}
	})
}

// remember writes the layout.
func (fx *effects) remember(memory Memory) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		if err := memory.save(fx.options.MemoryFile); err != nil {
			return doneMsg{what: "remember", err: err}
		}
		return nil
	})
}
