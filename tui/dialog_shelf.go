package tui

import (
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// kept is one thing that a provider keeps: a volume, a secret, an image. Of a secret it has names only.
type kept struct {
	name, provider string
	detail         string
	size           core.Bytes
	created        time.Time
}

// shelf is one kind of what providers keep.
type shelf struct {
	noun, title string
	want        core.Capability // "" is had by all
	// remove is the verb that takes a thing off, and warning says what that does.
	remove, removed, warning string
	// create says that an empty one can be made.
	create bool
}

// shelves are all kinds, in order.
func shelves() []shelf {
	return []shelf{
		{noun: "volume", title: "Volumes", want: core.CapVolumeStore, remove: "rm", removed: "is removed", warning: "All that is on it is removed.", create: true},
		{noun: "secret", title: "Secrets", want: core.CapSecretStore, remove: "rm", removed: "is removed", warning: "Sandboxes that run keep what they have of it."},
		{noun: "image", title: "Images", want: core.CapImageStore, remove: "rm", removed: "is removed", warning: "The next launch from it gets it again, where that can be."},
		{noun: "snapshot", title: "Snapshots", want: core.CapSnapshotStore, remove: "rm", removed: "is removed", warning: "No sandbox can be launched from it any more."},
		{noun: "checkpoint", title: "Checkpoints", want: core.CapCheckpoint, remove: "rm", removed: "is removed", warning: "No sandbox can be launched from it any more."},
		{noun: "app", title: "Apps", remove: "stop", removed: "is stopped", warning: "Every sandbox in it is terminated."},
		{noun: "environment", title: "Environments", want: core.CapEnvironmentStore, remove: "rm", removed: "is removed", warning: "Everything in it is removed: apps, volumes, secrets."},
	}
}

// removeLine is the command line that takes a thing off its shelf.
func (s shelf) removeLine(k kept) string {
	if s.want == core.CapCheckpoint {
		return quote("sb", s.noun, s.remove, k.provider+"/"+k.name)
	}
	return quote("sb", s.noun, s.remove, "--provider", k.provider, k.name)
}

// The requests of a shelf.
type (
	shelfRequest struct{ shelf shelf }
	dropRequest  struct {
		shelf shelf
		kept  kept
	}
	makeRequest struct {
		shelf          shelf
		provider, name string
	}
	// askRequest opens a dialog above the one that makes it.
	askRequest struct{ dialog dialog }
)

// shelfMsg says that something on a shelf has changed.
type shelfMsg struct{ noun string }

// shelfDialog shows what the providers keep, one kind at a time.
type shelfDialog struct {
	shelves []shelf
	which   int
	loaded  bool
	found   service.Inventory[kept]
	err     error
	at      int
	offset  int
	rows    int
	now     func() time.Time

	tabs []rect // relative to the box
}

func (d *shelfDialog) shelf() shelf { return d.shelves[d.which] }

func (d *shelfDialog) selected() (kept, bool) {
	if d.at >= len(d.found.Items) {
		return kept{}, false
	}
	return d.found.Items[d.at], true
}

// turn goes to another shelf.
func (d *shelfDialog) turn(to int) answer {
	d.which = (to + len(d.shelves)) % len(d.shelves)
	d.loaded, d.found, d.err, d.at, d.offset = false, service.Inventory[kept]{}, nil, 0, 0
	return answer{request: shelfRequest{d.shelf()}}
}

func (d *shelfDialog) move(by int) {
	d.at = min(max(d.at+by, 0), max(0, len(d.found.Items)-1))
}

func (d *shelfDialog) update(msg tea.Msg) answer {
	switch msg := msg.(type) {
	case keptMsg:
		if msg.shelf == d.shelf().noun {
			d.loaded, d.found, d.err = true, msg.kept, msg.err
			d.move(0)
		}
		return answer{}
	case shelfMsg:
		if msg.noun == d.shelf().noun {
			return answer{request: shelfRequest{d.shelf()}}
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

func (d *shelfDialog) key(key string) answer {
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
		return answer{request: shelfRequest{d.shelf()}}
	case "n":
		if d.shelf().create {
			return answer{request: askRequest{makePrompt(d.shelf())}}
		}
	case "D", "x", "delete":
		if k, ok := d.selected(); ok {
			return answer{request: askRequest{dropQuestion(d.shelf(), k)}}
		}
	case "y", "ctrl+y":
		line := quote("sb", d.shelf().noun, "ls")
		if k, ok := d.selected(); ok && key == "ctrl+y" {
			line = d.shelf().removeLine(k)
		}
		return answer{request: copyRequest{"command", line}}
	}
	return answer{}
}

func dropQuestion(s shelf, k kept) *question {
	verb := map[string]string{"rm": "Remove", "stop": "Stop"}[s.remove]
	what := safe(k.name) + " on " + k.provider
	if k.size > 0 {
		what += ", " + k.size.String()
	}
	return &question{
		title: verb + " " + s.noun + " " + cut(safe(k.name), 40) + "?",
		lines: []string{s.warning + " This cannot be undone.", "", what},
		choices: []choice{
			{key: "n", label: "Keep"}, {key: "y", label: verb, request: dropRequest{s, k}},
		},
		cli: s.removeLine(k),
	}
}

func makePrompt(s shelf) *prompt {
	parse := func(text string) (provider, name string) {
		provider, name, both := strings.Cut(strings.TrimSpace(text), "/")
		if !both {
			return "", provider
		}
		return provider, name
	}
	p := newPrompt("New "+s.noun, "A name; PROVIDER/NAME where several keep some.", "", func(text string) (request, error) {
		provider, name := parse(text)
		if name == "" {
			return nil, errors.New("a name")
		}
		return makeRequest{s, provider, name}, nil
	})
	p.cli = func(text string) string {
		provider, name := parse(text)
		if provider != "" {
			return quote("sb", s.noun, "create", "--provider", provider, name)
		}
		return quote("sb", s.noun, "create", name)
	}
	return p
}

func (d *shelfDialog) view(s *styles, w, h int) []string {
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
		lines = append(lines, s.faint.on("…"))
	case len(d.found.Items) == 0:
		lines = append(lines, s.faint.on("none"))
	}
	const where, size, age = 9, 7, 8
	more := 0
	for _, k := range d.found.Items {
		more = max(more, min(width(safe(k.detail)), inner/3))
	}
	name := max(16, inner-where-size-age-3-more)
	for i := d.offset; i < min(d.offset+d.rows, len(d.found.Items)); i++ {
		k := d.found.Items[i]
		amount := ""
		if k.size > 0 {
			amount = short(k.size)
		}
		text := fit(safe(k.name), name) + " " + fit(safe(k.provider), where) + fitRight(amount, size-1) + " " + fitRight(since(k.created, d.now()), age-1) + " "
		detail := cut(safe(k.detail), max(0, inner-width(text)-1))
		if i == d.at {
			lines = append(lines, s.selected.on(fit(text+" "+detail, inner)))
		} else {
			lines = append(lines, s.text.on(text)+" "+s.faint.on(detail))
		}
	}
	for len(lines) < d.rows+1 {
		lines = append(lines, "")
	}
	for _, f := range d.found.Failures {
		lines = append(lines, s.bad.on(cut(safe(f.Provider+": "+f.Error), inner)))
	}
	hints := "←→ kinds · D " + d.shelf().remove
	if d.shelf().create {
		hints += " · n new"
	}
	hints += " · y sb " + d.shelf().noun + " ls"
	if k, ok := d.selected(); ok {
		hints += " · ctrl+y " + d.shelf().removeLine(k)
	}
	return frame(s, "Kept by the providers", append(lines, s.faint.on(cut(safe(hints), inner))), w)
}

// head draws the kinds in one line; where there is no room, those around the one that is shown.
func (d *shelfDialog) head(s *styles, cells int) string {
	first := 0
	total := func() int {
		n := 0
		for _, sh := range d.shelves[first : d.which+1] {
			n += width(sh.title) + 2
		}
		return n
	}
	for first < d.which && total() > cells {
		first++
	}
	var b strings.Builder
	d.tabs = make([]rect, len(d.shelves))
	x := 0
	for i := first; i < len(d.shelves); i++ {
		title := d.shelves[i].title
		if x+width(title) > cells {
			break
		}
		p := s.tab
		if i == d.which {
			p = s.tabActive
		}
		d.tabs[i] = rect{x + 2, 1, width(title), 1}
		b.WriteString(p.on(title) + "  ")
		x += width(title) + 2
	}
	return b.String()
}
