package tui

import (
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// storedItem is one item of a provider's store, such as a volume or an image. A secret's item never has its value.
type storedItem struct {
	name, provider string
	detail         string
	size           core.Bytes
	created        time.Time
}

// store is one kind of stored item, such as all volumes.
type store struct {
	noun, title string
	want        core.Capability // "": every provider has it
	// remove is the sb verb, removed its result for a notice, and warning the consequence.
	remove, removed, warning string
	// create reports whether an empty item can be created.
	create bool
}

// stores returns all stores, in order.
func stores() []store {
	const removed = "is removed"
	return []store{
		{
			noun: "volume", title: "Volumes", want: core.CapVolumeStore, remove: "rm", removed: removed,
			warning: "All files on it are removed.", create: true,
		},
		{
			noun: "secret", title: "Secrets", want: core.CapSecretStore, remove: "rm", removed: removed,
			warning: "Running sandboxes keep the values they have.",
		},
		{
			noun: "image", title: "Images", want: core.CapImageStore, remove: "rm", removed: removed,
			warning: "The next launch pulls it again if it can.",
		},
		{
			noun: "snapshot", title: "Snapshots", want: core.CapSnapshotStore, remove: "rm", removed: removed,
			warning: "New sandboxes can no longer start from it.",
		},
		{
			noun: "checkpoint", title: "Checkpoints", want: core.CapCheckpoint, remove: "rm", removed: removed,
			warning: "New sandboxes can no longer start from it.",
		},
		{
			noun: "app", title: "Apps", remove: "stop", removed: "is stopped",
			warning: "Every sandbox in it is terminated.",
		},
		{
			noun: "environment", title: "Environments", want: core.CapEnvironmentStore, remove: "rm", removed: removed,
			warning: "Everything in it is removed: apps, volumes, secrets.",
		},
	}
}

// removeLine returns the command line that removes an item.
func (s store) removeLine(k storedItem) string {
	if s.want == core.CapCheckpoint {
		return format.Quote("sb", s.noun, s.remove, k.provider+"/"+k.name)
	}
	return format.Quote("sb", s.noun, s.remove, "--provider", k.provider, k.name)
}

// The requests of a store.
type (
	storeRequest      struct{ store store }
	removeItemRequest struct {
		store store
		item  storedItem
	}
	createItemRequest struct {
		store          store
		provider, name string
	}
	// askRequest opens a dialog above the one that sends it.
	askRequest struct{ dialog dialog }
)

// storeChangedMsg reports a change in a store.
type storeChangedMsg struct{ noun string }

// storeDialog shows the stores of all providers, one store at a time.
type storeDialog struct {
	stores []store
	which  int
	loaded bool
	found  service.Inventory[storedItem]
	err    error
	at     int
	offset int
	rows   int
	now    func() time.Time

	tabs []rect // relative to the box
}

func (d *storeDialog) store() store { return d.stores[d.which] }

func (d *storeDialog) selected() (storedItem, bool) {
	if d.at >= len(d.found.Items) {
		return storedItem{}, false
	}
	return d.found.Items[d.at], true
}

// turn switches to another store.
func (d *storeDialog) turn(to int) answer {
	d.which = (to + len(d.stores)) % len(d.stores)
	d.loaded, d.found, d.err, d.at, d.offset = false, service.Inventory[storedItem]{}, nil, 0, 0
	return answer{request: storeRequest{d.store()}}
}

func (d *storeDialog) move(by int) {
	d.at = min(max(d.at+by, 0), max(0, len(d.found.Items)-1))
}

func (d *storeDialog) update(msg tea.Msg) answer {
	switch msg := msg.(type) {
	case storeMsg:
		if msg.store == d.store().noun {
			d.loaded, d.found, d.err = true, msg.items, msg.err
			d.move(0)
		}
		return answer{}
	case storeChangedMsg:
		if msg.noun == d.store().noun {
			return answer{request: storeRequest{d.store()}}
		}
		return answer{}
	case tea.MouseWheelMsg:
		d.move(wheelStep(msg))
		return answer{}
	case boxClickMsg:
		for i, r := range d.tabs {
			if r.contains(msg.x, msg.y) {
				return d.turn(i)
			}
		}
		if i := d.offset + msg.y - 2; msg.y >= 2 && msg.y-2 < d.rows && i < len(d.found.Items) {
			d.at = i
		}
		return answer{}
	}
	return d.key(keyOf(msg))
}

func (d *storeDialog) key(key string) answer {
	switch key {
	case "esc", "q", "ctrl+c":
		return answer{done: true}
	case "right", "tab", "l":
		return d.turn(d.which + 1)
	case "left", "shift+tab", "h":
		return d.turn(d.which - 1)
	case "up", "k":
		d.move(-1)
	case "down", "j":
		d.move(1)
	case "pgup":
		d.move(-max(1, d.rows))
	case "pgdown":
		d.move(max(1, d.rows))
	case "home", "g":
		d.move(-len(d.found.Items))
	case "end", "G":
		d.move(len(d.found.Items))
	case "R", "ctrl+r":
		return answer{request: storeRequest{d.store()}}
	case "n":
		if d.store().create {
			return answer{request: askRequest{createItemPrompt(d.store())}}
		}
	case "D", "x", "delete":
		if k, ok := d.selected(); ok {
			return answer{request: askRequest{removeItemQuestion(d.store(), k)}}
		}
	case "y", "ctrl+y":
		line := format.Quote("sb", d.store().noun, "ls")
		if k, ok := d.selected(); ok && key == "ctrl+y" {
			line = d.store().removeLine(k)
		}
		return answer{request: copyRequest{"command", line}}
	}
	return answer{}
}

func removeItemQuestion(s store, k storedItem) *question {
	verb := map[string]string{"rm": "Remove", "stop": "Stop"}[s.remove]
	what := safe(k.name) + " on " + k.provider
	if k.size > 0 {
		what += ", " + k.size.String()
	}
	return &question{
		title: verb + " " + s.noun + " " + screen.Cut(safe(k.name), 40) + "?",
		lines: []string{s.warning + " This cannot be undone.", "", what},
		choices: []choice{
			{key: "n", label: "Keep"}, {key: "y", label: verb, request: removeItemRequest{s, k}},
		},
		cli: s.removeLine(k),
	}
}

func createItemPrompt(s store) *prompt {
	parse := func(text string) (provider, name string) {
		provider, name, both := strings.Cut(strings.TrimSpace(text), "/")
		if !both {
			return "", provider
		}
		return provider, name
	}
	hint := "NAME, or PROVIDER/NAME if several providers store " + strings.ToLower(s.title) + "."
	p := newPrompt("New "+s.noun, hint, "", func(text string) (request, error) {
		provider, name := parse(text)
		if name == "" {
			return nil, errors.New("enter a name")
		}
		return createItemRequest{s, provider, name}, nil
	})
	p.cli = func(text string) string {
		provider, name := parse(text)
		if provider != "" {
			return format.Quote("sb", s.noun, "create", "--provider", provider, name)
		}
		return format.Quote("sb", s.noun, "create", name)
	}
	return p
}

func (d *storeDialog) view(s *theme.Styles, w, h int) []string {
	w = min(w, 110)
	inner := w - 4
	lines := []string{d.head(s, inner)}
	d.rows = max(1, h-5-len(d.found.Failures))
	if len(d.found.Items) < d.rows {
		d.rows = max(1, min(d.rows, max(len(d.found.Items), 8)))
	}
	d.offset = min(max(d.offset, d.at-d.rows+1, 0), d.at)
	switch {
	case d.err != nil:
		lines = append(lines, problem(s, d.err, inner)...)
	case !d.loaded:
		lines = append(lines, s.Faint.On("…"))
	case len(d.found.Items) == 0:
		lines = append(lines, s.Faint.On("none"))
	}
	const where, size, age = 9, 7, 8
	more := 0
	for _, k := range d.found.Items {
		more = max(more, min(screen.Width(safe(k.detail)), inner/3))
	}
	name := max(16, inner-where-size-age-3-more)
	for i := d.offset; i < min(d.offset+d.rows, len(d.found.Items)); i++ {
		k := d.found.Items[i]
		amount := ""
		if k.size > 0 {
			amount = format.Short(k.size)
		}
		text := screen.Fit(safe(k.name), name) +
			" " + screen.Fit(safe(k.provider), where) + screen.FitRight(amount, size-1) + " " +
			screen.FitRight(format.Since(k.created, d.now()), age-1) + " "
		detail := screen.Cut(safe(k.detail), max(0, inner-screen.Width(text)-1))
		if i == d.at {
			lines = append(lines, s.Selected.On(screen.Fit(text+" "+detail, inner)))
		} else {
			lines = append(lines, s.Text.On(text)+" "+s.Faint.On(detail))
		}
	}
	for len(lines) < d.rows+1 {
		lines = append(lines, "")
	}
	for _, f := range d.found.Failures {
		lines = append(lines, s.Bad.On(screen.Cut(safe(f.Provider+": "+f.Error), inner)))
	}
	hints := "←→ stores · D " + d.store().remove
	if d.store().create {
		hints += " · n new"
	}
	hints += " · y sb " + d.store().noun + " ls"
	if k, ok := d.selected(); ok {
		hints += " · ctrl+y " + d.store().removeLine(k)
	}
	return frame(s, "Stores", append(lines, s.Faint.On(screen.Cut(safe(hints), inner))), w)
}

// head draws the titles of the stores in one line. When they do not fit it drops those to the left.
func (d *storeDialog) head(s *theme.Styles, cells int) string {
	first := 0
	total := func() int {
		n := 0
		for _, sh := range d.stores[first : d.which+1] {
			n += screen.Width(sh.title) + 2
		}
		return n
	}
	for first < d.which && total() > cells {
		first++
	}
	var b strings.Builder
	d.tabs = make([]rect, len(d.stores))
	x := 0
	for i := first; i < len(d.stores); i++ {
		title := d.stores[i].title
		if x+screen.Width(title) > cells {
			break
		}
		p := s.Tab
		if i == d.which {
			p = s.TabActive
		}
		d.tabs[i] = rect{x + 2, 1, screen.Width(title), 1}
		b.WriteString(p.On(title) + "  ")
		x += screen.Width(title) + 2
	}
	return b.String()
}
