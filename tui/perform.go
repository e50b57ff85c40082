package tui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// The requests of dialogs and commands.
type (
	commandRequest   struct{ id string }
	copyRequest      struct{ what, text string }
	launchRequest    struct{ spec core.Spec }
	terminateRequest struct{ boxes []core.Sandbox }
	execRequest      struct {
		box     core.Sandbox
		command []string
	}
	timeoutRequest struct {
		boxes   []core.Sandbox
		timeout time.Duration
	}
	policyRequest struct {
		box     core.Sandbox
		network core.Network
	}
	snapshotRequest struct {
		box  core.Sandbox
		name string
	}
	forkRequest struct {
		box  core.Sandbox
		name string
	}
	moveRequest struct {
		box  core.Sandbox
		to   string
		keep bool
	}
	checkpointRequest struct {
		box  core.Sandbox
		name string
	}
	pushRequest struct {
		box      core.Sandbox
		from, to string
	}
	pullRequest struct {
		box      core.Sandbox
		from, to string
	}
	killRequest struct {
		box    core.Sandbox
		exec   string
		signal int
	}
	removeRequest struct {
		box  core.Sandbox
		info core.FileInfo
	}
	saveRequest     struct{ path, text string }
	sourceRequest   struct{ exec string }
	themeRequest    struct{ theme string }
	diagnoseRequest struct{ provider string }
	openRequest     struct{ url string }
	cancelRequest   struct{ job int }
	quitRequest     struct{ wait bool }
)

// maxCopy is the largest copy in bytes that terminals accept.
const maxCopy = 512 << 10

// perform carries out a request.
func (m *Model) perform(r request) tea.Cmd {
	switch r := r.(type) {
	case commandRequest:
		return m.runCommand(r.id)
	case copyRequest:
		return m.copyText(r)
	case launchRequest:
		j := m.begin("launching " + orElse(r.spec.Name, "a sandbox"))
		return m.fx.launch(j, r.spec)
	case terminateRequest:
		for _, box := range r.boxes {
			delete(m.table.marks, box.ID)
		}
		return m.forEach("terminate", "", r.boxes, func(ctx context.Context, box core.Sandbox) error {
			err := m.fx.service.Sandboxes.Terminate(ctx, box.ID)
			if errors.Is(err, core.KindNotFound) { // it ended since
				return nil
			}
			return err
		})
	case execRequest:
		return m.fx.start(m.begin("exec in "+r.box.Name), r.box, r.command)
	case timeoutRequest:
		return m.setTimeout(r)
	case policyRequest:
		return m.fx.setNetwork(m.begin("policy of "+r.box.Name), r.box, r.network)
	case snapshotRequest:
		return m.fx.snapshot(m.begin("snapshot of "+r.box.Name), r.box, r.name)
	case forkRequest:
		return m.fx.fork(m.begin("fork of "+r.box.Name), r.box, r.name)
	case moveRequest:
		return m.fx.move(m.begin("moving "+r.box.Name+" to "+r.to), r.box, r.to, r.keep)
	case checkpointRequest:
		return m.fx.checkpoint(m.begin("checkpoint of "+r.box.Name), r.box, r.name)
	case storeRequest:
		return m.fx.listStore(r.store)
	case removeItemRequest:
		return m.fx.removeStored(m.begin("removing "+r.store.noun+" "+r.item.name), r.store, r.item)
	case createItemRequest:
		return m.fx.createVolume(m.begin("creating volume "+r.name), r.store, r.provider, r.name)
	case askRequest:
		m.open(r.dialog)
	case pushRequest:
		j := m.begin("push " + r.from + " to " + r.box.Name + ":" + r.to)
		to := transfer.Endpoint{Sandbox: r.box.ID, Path: r.to}
		return m.fx.copy(j, transfer.Endpoint{Path: r.from}, to, reloadDirMsg{r.to})
	case pullRequest:
		j := m.begin("pull " + r.box.Name + ":" + r.from + " to " + r.to)
		return m.fx.copy(j, transfer.Endpoint{Sandbox: r.box.ID, Path: r.from}, transfer.Endpoint{Path: r.to}, nil)
	case killRequest:
		return m.fx.kill(m.begin("signal for "+r.exec+" in "+r.box.Name), r.box, r.exec, r.signal)
	case removeRequest:
		m.detail.files.preview = nil
		j := m.begin("deleting " + r.info.Path + " in " + r.box.Name)
		return m.fx.remove(j, r.box, r.info, reloadDirMsg{path.Dir(r.info.Path)})
	case saveRequest:
		return m.fx.saveText(r.path, r.text)
	case sourceRequest:
		m.detail.output.chosen = true
		m.focusOn(paneDetail)
		return tea.Batch(m.selectTab(tabOutput), m.openLog(r.exec))
	case themeRequest:
		return m.chooseTheme(r.theme)
	case diagnoseRequest:
		return tea.Batch(m.say("checking "+r.provider+" …"), m.fx.diagnose(r.provider))
	case openRequest:
		return tea.Batch(tea.SetClipboard(r.url), m.fx.openURL(r.url))
	case cancelRequest:
		m.cancelJobs(func(j *job) bool { return j.id == r.job })
	case quitRequest:
		if m.leaving = r.wait && len(m.jobs) > 0; m.leaving {
			return nil
		}
		m.cancelJobs(func(*job) bool { return true })
		return tea.Quit
	}
	return nil
}

// runCommand runs a command of the key map if it is possible now.
func (m *Model) runCommand(id string) tea.Cmd {
	for _, c := range m.commands {
		if c.id == id && m.possible(c) {
			return c.run(m)
		}
	}
	return nil
}

// copyText copies a text, or its end when it is longer than maxCopy.
func (m *Model) copyText(r copyRequest) tea.Cmd {
	text := r.text
	message := r.what + " copied: " + screen.Cut(strings.ReplaceAll(text, "\n", " "), 40)
	if len(text) > maxCopy {
		text = text[len(text)-maxCopy:]
		message = fmt.Sprintf("the last %s of the %s copied", core.Bytes(maxCopy), r.what)
	}
	return tea.Batch(tea.SetClipboard(text), m.say(message))
}

func (m *Model) setTimeout(r timeoutRequest) tea.Cmd {
	message := "timeout of " + names(r.boxes) + " is " + format.Span(r.timeout)
	if r.timeout == 0 {
		message = "timeout of " + names(r.boxes) + " is removed"
	}
	return m.forEach("timeout", message, r.boxes, func(ctx context.Context, box core.Sandbox) error {
		_, err := m.fx.service.Sandboxes.SetTimeout(ctx, box.ID, r.timeout)
		return err
	})
}

func (m *Model) chooseTheme(chosen string) tea.Cmd {
	m.theme = chosen
	m.setTheme(true)
	if chosen == theme.Auto {
		return tea.RequestBackgroundColor
	}
	return nil
}

func (m *Model) cancelJobs(which func(*job) bool) {
	for _, j := range m.jobs {
		if which(j) {
			j.cancel()
		}
	}
}

// progressed stores the progress of jobs.
func (m *Model) progressed(msg progressMsg) {
	for _, p := range msg {
		for _, j := range m.jobs {
			if j.id == p.id {
				j.progress = p.Progress
			}
		}
	}
}

// forEach starts a job that runs work for several sandboxes.
func (m *Model) forEach(op, text string, boxes []core.Sandbox, work func(context.Context, core.Sandbox) error) tea.Cmd {
	title := op + " " + format.Plural(len(boxes), "sandbox", "sandboxes")
	if len(boxes) == 1 {
		title = op + " " + boxes[0].Name
	}
	j := m.begin(title)
	return m.fx.run(j, func(ctx context.Context, report core.ProgressFunc) (string, tea.Msg, error) {
		return text, nil, m.fx.each(ctx, op, boxes, report, work)
	})
}

// begin adds a job.
func (m *Model) begin(title string) *job {
	m.nextJob++
	j := &job{id: m.nextJob, title: safe(title), began: m.now}
	m.jobs = append(m.jobs, j)
	return j
}

// jobDone handles the end of a job. A failed job cancels "quit when done", so that the user sees the error.
func (m *Model) jobDone(msg jobDoneMsg) tea.Cmd {
	i := slices.IndexFunc(m.jobs, func(j *job) bool { return j.id == msg.id })
	if i < 0 {
		return nil
	}
	title := m.jobs[i].title
	m.jobs = slices.Delete(m.jobs, i, i+1)
	var cmds []tea.Cmd
	switch {
	case msg.err == nil:
		if msg.text != "" {
			cmds = append(cmds, m.say(msg.text))
		}
	case core.KindOf(msg.err) == core.KindCanceled:
		cmds = append(cmds, m.warn(title+": canceled", core.HintOf(msg.err)))
	default:
		m.leaving = false
		cmds = append(cmds, m.fail(title, msg.err))
	}
	if msg.then != nil {
		cmds = append(cmds, m.handle(msg.then))
	}
	if m.leaving && len(m.jobs) == 0 {
		cmds = append(cmds, tea.Quit)
	}
	return tea.Batch(cmds...)
}

// loginShell starts bash if the sandbox has it, else sh.
func loginShell() []string {
	return []string{"/bin/sh", "-c", `if [ -x /bin/bash ]; then exec /bin/bash; fi; exec /bin/sh`}
}

func (m *Model) openShell() tea.Cmd {
	return m.fx.shell(m.table.selected().box, loginShell())
}

// shellEnded shows how a shell ended and reloads everything.
func (m *Model) shellEnded(msg shellEndedMsg) tea.Cmd {
	for _, s := range m.inv.sources {
		m.inv.hurry(s.name, m.now)
	}
	cmds := []tea.Cmd{redraw(), m.hurryUp(), m.reload()}
	if msg.err != nil {
		cmds = append(cmds, m.warn("the shell in "+msg.name+" ended: "+msg.err.Error(), core.HintOf(msg.err)))
	}
	return tea.Batch(cmds...)
}

// markAll marks the shown sandboxes of the current owner. Those of other owners can only be marked one at a time.
func (m *Model) markAll() tea.Cmd {
	mine, _, err := m.fx.service.Sandboxes.Mine(m.table.boxes())
	if err != nil {
		return m.fail("mark", err)
	}
	m.table.markAll(mine)
	return nil
}

func (m *Model) togglePause() tea.Cmd {
	resume := m.table.selected().box.State == core.StatePaused
	op := map[bool]string{true: "resume", false: "pause"}[resume]
	return m.forEach(op, "", m.chosen(), func(ctx context.Context, box core.Sandbox) error {
		if resume {
			return m.fx.service.Sandboxes.Resume(ctx, box.ID)
		}
		return m.fx.service.Sandboxes.Pause(ctx, box.ID)
	})
}

// stopGrace is how long processes have to exit before they are killed.
const stopGrace = 10 * time.Second

func (m *Model) toggleStop() tea.Cmd {
	stop := m.table.selected().box.State == core.StateRunning
	op := map[bool]string{true: "stop", false: "start"}[stop]
	return m.forEach(op, "", m.chosen(), func(ctx context.Context, box core.Sandbox) error {
		if stop {
			return m.fx.service.Sandboxes.Stop(ctx, box.ID, stopGrace)
		}
		_, err := m.fx.service.Sandboxes.Start(ctx, box.ID)
		return err
	})
}

func (m *Model) editFile() tea.Cmd {
	info, _ := m.detail.files.selected()
	if info.Mode&fs.ModeType != 0 {
		return nil
	}
	return m.fx.fetch(m.table.selected().box, info)
}

// refresh reloads everything and draws the whole screen, which another program may have written to.
func (m *Model) refresh() tea.Cmd {
	for _, s := range m.inv.sources {
		m.inv.hurry(s.name, m.now)
		s.nextCheck = m.now
	}
	return tea.Batch(redraw(), m.poll(), m.checks(), m.reload())
}
