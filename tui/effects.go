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
	"github.com/seed-0724f904/sb/tui/internal/feed"
	"github.com/seed-0724f904/sb/tui/internal/format"
)

const (
	// callTimeout bounds background reads: samples, journals, directories.
	callTimeout = 15 * time.Second
	// eventLimit is the number of events kept while the dashboard lags.
	eventLimit = 1000
	// eachTimeout bounds an operation on one of several sandboxes.
	eachTimeout = time.Minute
	// sampleAtOnce is the number of concurrent operations: samples of one provider, or calls of each.
	sampleAtOnce = 8
	// closeTimeout is how long close waits for running work.
	closeTimeout = 5 * time.Second
)

// effects has all I/O of the dashboard. Its methods return commands that may block. The message of a command is the
// result.
type effects struct {
	ctx     context.Context //nolint:containedctx // all commands share the dashboard's lifetime
	cancel  context.CancelFunc
	service *service.Service
	options Options

	events   *feed.Feed[core.Event]
	progress *feed.Feed[jobProgress]

	// screenSized has an element if the size of the terminal was reported since the last hand-over.
	screenSized chan struct{}

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

func newEffects(ctx context.Context, options Options) *effects {
	ctx, cancel := context.WithCancel(ctx)
	return &effects{
		ctx: ctx, cancel: cancel, service: options.Service, options: options, screenSized: make(chan struct{}, 1),
		events: feed.New(func(kept, added []core.Event) []core.Event {
			kept = append(kept, added...)
			return kept[max(0, len(kept)-eventLimit):]
		}),
		progress: feed.New(mergeProgress),
	}
}

// close cancels all work and waits for it, at most closeTimeout: a provider may hang.
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
		return core.Errorf(core.KindTimeout, "ui", "", "background work did not end within %s", closeTimeout)
	}
}

// enter registers a goroutine with busy. It returns false when the dashboard has ended.
func (fx *effects) enter() bool {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.closed {
		return false
	}
	fx.busy.Add(1)
	return true
}

// do returns a command that runs work. The dashboard's end cancels it.
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
			if caps, err := fx.service.Providers.Capabilities(name); err == nil {
				all[name] = caps
			}
		}
		return all
	})
}

func (fx *effects) list(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		listing, err := fx.service.Sandboxes.List(ctx, core.ListFilter{Provider: provider, All: true})
		if err != nil {
			listing.Failures = []core.ProviderFailure{{
				Provider: provider, Kind: core.KindOf(err), Error: err.Error(), Hint: core.HintOf(err),
			}}
		}
		return listedMsg{provider, listing}
	})
}

func (fx *effects) check(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		return checkedMsg{provider, fx.status(ctx, provider, false)}
	})
}

// diagnose runs the doctor on a provider.
func (fx *effects) diagnose(provider string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg { return findingsMsg{fx.status(ctx, provider, true)} })
}

func (fx *effects) status(ctx context.Context, provider string, findings bool) service.ProviderStatus {
	status, err := fx.service.Providers.Status(ctx, provider, findings)
	if err != nil {
		return service.ProviderStatus{Name: provider, Error: err.Error(), Hint: core.HintOf(err)}
	}
	return status
}

// sample measures sandboxes of one provider. It leaves out those that fail.
func (fx *effects) sample(provider string, ids []string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found := make([]*core.Stats, len(ids))
		slots := make(chan struct{}, sampleAtOnce)
		var all sync.WaitGroup
		for i, id := range ids {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if stats, err := fx.service.Sandboxes.Stats(ctx, id); err == nil {
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

// watch subscribes to events until the dashboard ends.
func (fx *effects) watch() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		for ctx.Err() == nil {
			for event, err := range fx.service.Records.Events(ctx) {
				if err == nil {
					fx.events.Put(event)
				}
			}
			// The subscription ends early only when events were lost; the empty event reports that.
			fx.events.Put(core.Event{})
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
		batch, open := fx.events.Take(ctx)
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

// attach finds the sandbox to open first.
func (fx *effects) attach(ref string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		box, err := fx.service.Sandboxes.Resolve(ctx, ref)
		return attachedMsg{box, err}
	})
}

// openLog starts to read a command's output.
func (fx *effects) openLog(gen int, sandbox, exec string) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		if !fx.enter() {
			return nil
		}
		ctx, cancel := context.WithCancel(ctx)
		log := feed.NewLog(cancel)
		go func() {
			defer fx.busy.Done()
			log.Read(ctx, fx.service, sandbox, exec)
		}()
		return logOpenedMsg{gen, log}
	})
}

func (fx *effects) nextLog(gen int, log *feed.Log) tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		batch, open := log.Take(ctx)
		return logMsg{gen, batch, open}
	})
}

func (fx *effects) closeLog(log *feed.Log) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		log.Cancel()
		return nil
	})
}

func (fx *effects) execs(gen int, sandbox string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		execs, err := fx.service.Execs.List(ctx, sandbox)
		return execsMsg{gen, execs, err}
	})
}

func (fx *effects) readDir(gen int, sandbox, path string) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		infos, err := fx.service.Files.ReadDir(ctx, sandbox, path)
		return dirMsg{gen, path, infos, err}
	})
}

// preview reads the beginning of a file. For a link to a directory it lists the directory.
func (fx *effects) preview(gen int, sandbox string, info core.FileInfo) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		p := preview{info: info}
		content, err := fx.service.Files.ReadFile(ctx, sandbox, info.Path)
		if err == nil {
			var head []byte
			head, err = io.ReadAll(io.LimitReader(content, maxPreview))
			_ = content.Close() // the data was read already
			p.describe(head)
		}
		if err != nil && info.Mode&fs.ModeSymlink != 0 {
			if infos, dirErr := fx.service.Files.ReadDir(ctx, sandbox, info.Path); dirErr == nil {
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
		for record, err := range fx.service.Records.History(ctx, service.HistoryFilter{Sandbox: sandbox}) {
			if _, ok := errors.AsType[*service.AuditDamage](err); ok {
				continue // "sb history" names it
			}
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

// network reads the addresses of a sandbox's ports and, if denials is set, its denied connections.
func (fx *effects) network(gen int, box core.Sandbox, denials bool) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found := network{known: true}
		if denials {
			found.denials, found.err = fx.service.Policy.Denials(ctx, box.ID)
		}
		if publishes(box) {
			found.tunnels, found.tunnelsErr = fx.service.Ports.Tunnels(ctx, box.ID)
		}
		return networkMsg{gen, found}
	})
}

// setNetwork changes a sandbox's network policy.
func (fx *effects) setNetwork(j *job, box core.Sandbox, network core.Network) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		changed, err := fx.service.Policy.SetNetwork(ctx, box.ID, network)
		return "network policy of " + box.Name + " is " + policyText(changed.Spec.Network), nil, err
	})
}

// sized reads the size of the files of persistent sandboxes.
func (fx *effects) sized(boxes []core.Sandbox) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg { return sizedMsg{fx.service.Sandboxes.Sized(ctx, boxes)} })
}

func (fx *effects) tunnels(box core.Sandbox) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		tunnels, err := fx.service.Ports.Tunnels(ctx, box.ID)
		return tunnelsMsg{box, tunnels, err}
	})
}

// explain asks for the placement of a spec.
func (fx *effects) explain(seq int, spec core.Spec) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		placement, err := fx.service.Sandboxes.Explain(ctx, spec)
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

// each runs work for several sandboxes, sampleAtOnce at a time, and joins the errors.
func (fx *effects) each(
	ctx context.Context, op string, boxes []core.Sandbox, report core.ProgressFunc,
	work func(context.Context, core.Sandbox) error,
) error {
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
				failed[i] = core.Wrap(op, box.Name, err)
			}
			if n := done.Add(1); report != nil {
				report(core.Progress{Step: fmt.Sprintf("%d of %d", n, len(boxes))})
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// listStore lists a store of all providers.
func (fx *effects) listStore(s store) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		found, err := fx.storedItems(ctx, s.noun)
		return storeMsg{s.noun, found, err}
	})
}

// storedItems lists the items of the store with this noun, of all providers.
func (fx *effects) storedItems(ctx context.Context, noun string) (service.Inventory[storedItem], error) {
	switch noun {
	case "volume":
		found, err := fx.service.Stores.Volumes(ctx, "")
		return toStoredItems(found, err, func(v core.VolumeInfo) storedItem {
			return storedItem{v.Name, v.Provider, "", v.Size, v.Created}
		})
	case "secret":
		found, err := fx.service.Stores.Secrets(ctx, "")
		return toStoredItems(found, err, func(s core.SecretInfo) storedItem {
			return storedItem{s.Name, s.Provider, strings.Join(s.Keys, " "), 0, s.Created}
		})
	case "image":
		found, err := fx.service.Stores.Images(ctx, "")
		return toStoredItems(found, err, func(i core.ImageInfo) storedItem {
			return storedItem{append(i.Names, i.ID)[0], i.Provider, i.ID, i.Size, i.Created}
		})
	case "snapshot":
		found, err := fx.service.Stores.Snapshots(ctx, "")
		return toStoredItems(found, err, func(s core.Snapshot) storedItem {
			return storedItem{s.ID, s.Provider, strings.TrimSpace(s.Name + " " + s.Path), s.Size, s.Created}
		})
	case "checkpoint":
		found, err := fx.service.Stores.Checkpoints(ctx, "")
		return toStoredItems(found, err, func(c core.Checkpoint) storedItem {
			return storedItem{c.Name, c.Provider, "of " + c.Of, c.Size, c.Created}
		})
	case "app":
		found, err := fx.service.Stores.Apps(ctx, "")
		return toStoredItems(found, err, func(a core.AppInfo) storedItem {
			detail := strings.TrimSpace(format.Plural(a.Sandboxes, "sandbox", "sandboxes") + " " + a.State)
			return storedItem{a.Name, a.Provider, detail, 0, a.Created}
		})
	case "environment":
		found, err := fx.service.Stores.Environments(ctx, "")
		return toStoredItems(found, err, func(e core.EnvironmentInfo) storedItem {
			return storedItem{e.Name, e.Provider, map[bool]string{true: "in use"}[e.Current], 0, time.Time{}}
		})
	}
	return service.Inventory[storedItem]{}, core.Errorf(core.KindInternal, "ui", noun, "unknown store")
}

// toStoredItems converts a provider's list, sorted by name.
func toStoredItems[T any](
	found service.Inventory[T], err error, as func(T) storedItem,
) (service.Inventory[storedItem], error) {
	all := service.Inventory[storedItem]{Failures: found.Failures}
	for _, item := range found.Items {
		all.Items = append(all.Items, as(item))
	}
	slices.SortStableFunc(all.Items, func(a, b storedItem) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.provider, b.provider))
	})
	return all, err
}

// removeItem removes an item from the store with this noun.
func (fx *effects) removeItem(ctx context.Context, noun string, k storedItem) error {
	switch noun {
	case "volume":
		return fx.service.Stores.RemoveVolume(ctx, k.provider, k.name)
	case "secret":
		return fx.service.Stores.RemoveSecret(ctx, k.provider, k.name)
	case "image":
		return fx.service.Stores.RemoveImage(ctx, k.provider, k.name)
	case "snapshot":
		return fx.service.Stores.RemoveSnapshot(ctx, k.provider, k.name)
	case "checkpoint":
		return fx.service.Stores.RemoveCheckpoint(ctx, k.provider, k.name)
	case "app":
		return fx.service.Stores.StopApp(ctx, k.provider, k.name, false)
	case "environment":
		return fx.service.Stores.RemoveEnvironment(ctx, k.provider, k.name)
	}
	return core.Errorf(core.KindInternal, "ui", noun, "unknown store")
}

// createVolume creates an empty volume.
func (fx *effects) createVolume(j *job, s store, provider, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		made, err := fx.service.Stores.CreateVolume(ctx, provider, name, core.VolumeOptions{})
		return "volume " + made.Name + " is created on " + made.Provider, storeChangedMsg{s.noun}, err
	})
}

// removeStored is removeItem as a job.
func (fx *effects) removeStored(j *job, s store, k storedItem) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return s.noun + " " + k.name + " " + s.removed, storeChangedMsg{s.noun}, fx.removeItem(ctx, s.noun, k)
	})
}

// start starts a command in a sandbox and leaves it running.
func (fx *effects) start(j *job, box core.Sandbox, command []string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		process, err := fx.service.Execs.Start(ctx, box.ID, core.ExecSpec{Command: command, Detach: true})
		if err != nil {
			return "", nil, err
		}
		id := process.ID()
		return "command " + id + " is started in " + box.Name, startedMsg{box.ID, id}, process.Close()
	})
}

func (fx *effects) kill(j *job, box core.Sandbox, exec string, signal int) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return fmt.Sprintf("signal %d sent to %s", signal, exec), nil, fx.service.Execs.Kill(ctx, box.ID, exec, signal)
	})
}

func (fx *effects) remove(j *job, box core.Sandbox, info core.FileInfo, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		return info.Path + " removed", then, fx.service.Files.Remove(ctx, box.ID, info.Path, info.Mode.IsDir())
	})
}

// run returns a command that runs the job's work. On success text is shown. The message then is handled in any case.
func (fx *effects) run(
	j *job, work func(ctx context.Context, report core.ProgressFunc) (text string, then tea.Msg, err error),
) tea.Cmd {
	ctx, cancel := context.WithCancel(fx.ctx)
	j.cancel = cancel
	id := j.id
	return fx.do(func(context.Context) tea.Msg {
		defer cancel()
		text, then, err := work(ctx, func(p core.Progress) { fx.progress.Put(jobProgress{id, p}) })
		return jobDoneMsg{id: id, err: err, text: text, then: then}
	})
}

func (fx *effects) nextProgress() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		batch, open := fx.progress.Take(ctx)
		if !open {
			return nil
		}
		return progressMsg(batch)
	})
}

// goTo returns the message that selects a new sandbox, or nil after an error.
func goTo(made core.Sandbox, err error) tea.Msg {
	if err != nil {
		return nil
	}
	return attachedMsg{box: made}
}

func (fx *effects) launch(j *job, spec core.Spec) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		var notices []string // the launch itself has the notice of its event
		box, err := fx.service.Sandboxes.Launch(ctx, spec, service.LaunchOptions{
			Named: true, Progress: report, Notice: func(text string) { notices = append(notices, text) },
		})
		return strings.Join(notices, "; "), goTo(box, err), err
	})
}

func (fx *effects) snapshot(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		snapshot, err := fx.service.Sandboxes.Snapshot(ctx, box.ID, core.SnapshotOptions{Name: name})
		return "snapshot " + snapshot.ID + " of " + box.Name + " is created", nil, err
	})
}

func (fx *effects) fork(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		fork, err := fx.service.Sandboxes.Fork(ctx, box.ID, service.ForkOptions{Name: name})
		return fork.Name + " is forked from " + box.Name, goTo(fork, err), err
	})
}

func (fx *effects) move(j *job, box core.Sandbox, to string, keep bool) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		moved, err := fx.service.Sandboxes.Move(ctx, box.ID, service.MoveOptions{To: to, Keep: keep, Progress: report})
		return box.Name + " is moved to " + to, goTo(moved.Target, err), err
	})
}

func (fx *effects) checkpoint(j *job, box core.Sandbox, name string) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		made, err := fx.service.Sandboxes.Checkpoint(ctx, box.ID, name)
		return "checkpoint " + made.Name + " of " + box.Name + " is created, " + made.Size.String(), nil, err
	})
}

func (fx *effects) copy(j *job, from, to transfer.Endpoint, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		result, err := transfer.Copy(ctx, fx.service.Files, transfer.Request{From: from, To: to, Progress: report})
		text := fmt.Sprintf(
			"%s, %s copied to %s", format.Plural(result.Files, "file", "files"), core.Bytes(result.Bytes), to.Path,
		)
		if len(result.Warnings) > 0 {
			text += "; " + strings.Join(result.Warnings, "; ")
		}
		return text, then, err
	})
}

// shell hands the terminal over to a shell in a sandbox.
func (fx *effects) shell(box core.Sandbox, command []string) tea.Cmd {
	run := func() error { return fx.options.Shell(fx.ctx, box.ID, command) }
	return tea.Exec(&foreground{run: run}, func(err error) tea.Msg { return shellEndedMsg{box.Name, err} })
}

// aside hands the terminal over to a function; see Options.Asides.
func (fx *effects) aside(run func() error) tea.Cmd {
	select { // a report from before the hand-over
	case <-fx.screenSized:
	default:
	}
	return tea.Exec(&foreground{run: run}, func(err error) tea.Msg { return asideOverMsg{err} })
}

// resized reports that the size of the terminal is known.
func (fx *effects) resized() {
	select {
	case fx.screenSized <- struct{}{}:
	default:
	}
}

// sizePatience bounds the wait for the size of a restored terminal. Without a terminal there is no report.
const sizePatience = 100 * time.Millisecond

// settle waits until the size of a restored terminal is known. Bubble Tea 2.0.9 reads it in a goroutine, which is a
// data race with another hand-over.
func (fx *effects) settle() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		patience := time.NewTimer(sizePatience)
		defer patience.Stop()
		select {
		case <-fx.screenSized:
		case <-patience.C:
		case <-ctx.Done():
		}
		return handOverMsg{}
	})
}

// nextAside waits for the next function from Options.Asides.
func (fx *effects) nextAside() tea.Cmd {
	return fx.do(func(ctx context.Context) tea.Msg {
		select {
		case run := <-fx.options.Asides: // a nil channel never delivers
			return asideMsg{run}
		case <-ctx.Done():
			return nil
		}
	})
}

// afterOthers resets terminal modes that another program may have set and that would break drawing. They are origin
// mode, scroll margins, insert mode, no auto-wrap, another character set and reverse video.
const afterOthers = ansi.ResetModeOrigin + "\x1b[r" + ansi.ResetModeLeftRightMargin + ansi.ResetModeInsertReplace +
	ansi.SetModeAutoWrap + "\x1b(B\x0f" + "\x1b[?5l"

// redraw restores the terminal's modes and draws the whole screen, after another program used the terminal.
func redraw() tea.Cmd { return tea.Sequence(tea.Raw(afterOthers), tea.ClearScreen) }

// edit is a sandbox's file during an edit on this machine.
type edit struct {
	box   core.Sandbox
	info  core.FileInfo
	local string // the copy
	old   []byte
}

// maxEdit is the largest editable file in bytes.
const maxEdit = 8 << 20

// fetch copies a file to this machine for an edit.
func (fx *effects) fetch(box core.Sandbox, info core.FileInfo) tea.Cmd {
	return fx.ask(func(ctx context.Context) tea.Msg {
		fail := func(err error) tea.Msg { return doneMsg{what: "edit", err: err} }
		// The directory listing may be stale, and putBack compares the modification time.
		info, err := fx.service.Files.Stat(ctx, box.ID, info.Path)
		if err != nil {
			return fail(err)
		}
		content, err := fx.service.Files.ReadFile(ctx, box.ID, info.Path)
		if err != nil {
			return fail(err)
		}
		old, err := io.ReadAll(io.LimitReader(content, maxEdit+1))
		if err := errors.Join(err, content.Close()); err != nil {
			return fail(err)
		}
		if len(old) > maxEdit {
			return fail(core.Errorf(core.KindUsage, "edit", info.Path, "larger than %s", core.Bytes(maxEdit)).
				WithHint("pull the file, edit it, then push it"))
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

// putBack writes an edited file back to the sandbox and removes the local copy. After an error the copy stays.
func (fx *effects) putBack(j *job, e edit, then tea.Msg) tea.Cmd {
	return fx.run(j, func(ctx context.Context, _ core.ProgressFunc) (string, tea.Msg, error) {
		fail := func(err error) (string, tea.Msg, error) {
			hint := "your text is in " + e.local
			return "", then, &core.Error{Kind: core.KindOf(err), Op: "edit", Subject: e.info.Path, Err: err, Hint: hint}
		}
		text, err := os.ReadFile(e.local)
		if err != nil {
			return fail(err)
		}
		message := e.info.Path + " is unchanged"
		if !bytes.Equal(text, e.old) {
			now, err := fx.service.Files.Stat(ctx, e.box.ID, e.info.Path)
			if err == nil && !now.ModTime.Equal(e.info.ModTime) {
				err = core.Errorf(core.KindConflict, "edit", e.info.Path, "the file changed in the sandbox during the edit")
			}
			if err == nil {
				err = fx.service.Files.WriteFile(ctx, e.box.ID, e.info.Path, bytes.NewReader(text), core.WriteOptions{})
			}
			if err != nil {
				return fail(err)
			}
			message = e.info.Path + " written"
		}
		return message, then, os.RemoveAll(filepath.Dir(e.local))
	})
}

// openPatience is how long openURL waits for the opener to fail. Some openers run as long as the browser.
const openPatience = 3 * time.Second

// openURL opens a page in the desktop's browser. The browser outlives the dashboard.
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
			err = core.Errorf(core.KindUnavailable, "open", url, "cannot open a browser: %w", err).
				WithHint("the address is in the clipboard")
		}
		return doneMsg{what: "open", text: url + " opened", err: err}
	})
}

// saveText writes text to a new file.
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

// remember saves the layout.
func (fx *effects) remember(memory Memory) tea.Cmd {
	return fx.do(func(context.Context) tea.Msg {
		if err := memory.save(fx.options.MemoryFile); err != nil {
			return doneMsg{what: "save the layout", err: err}
		}
		return nil
	})
}
