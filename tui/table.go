package tui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sahilm/fuzzy"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// The values of table.group.
const (
	groupNone     = ""
	groupApp      = "app"
	groupProvider = "provider"
)

// table is the list of sandboxes, with its filter, order, cursor and marks.
type table struct {
	columns  []column
	sort     string
	reverse  bool
	filter   string
	group    string
	hideDead bool

	rows   []tableRow
	wanted []column // the columns that are not empty
	total  int      // all sandboxes, hidden ones included
	cursor string   // a sandbox id
	at     int      // the cursor's row
	offset int      // the first row on the screen
	marks  map[string]bool

	size   rect
	shown  []column
	widths []int
}

// tableRow is a sandbox or the title of a group.
type tableRow struct {
	entry *entry
	title string
}

func newTable() *table {
	return &table{columns: columns(), sort: "name", marks: map[string]bool{}}
}

// refresh rebuilds the rows from the inventory. The cursor stays on its sandbox, or at its row if that is gone.
func (t *table) refresh(inv *inventory) {
	t.total = len(inv.entries)
	entries := make([]*entry, 0, len(inv.entries))
	terms := strings.Fields(t.filter)
	for _, e := range inv.entries {
		if (!t.hideDead || e.box.State.Live()) && matches(e, terms) {
			entries = append(entries, e)
		}
	}
	t.arrange(entries)
	t.wanted = t.wanted[:0]
	for _, c := range t.columns {
		if c.wanted == nil || slices.ContainsFunc(entries, c.wanted) {
			t.wanted = append(t.wanted, c)
		}
	}
	t.rows = t.rows[:0]
	title := ""
	for _, e := range entries {
		if next := t.groupOf(e); t.group != groupNone && (len(t.rows) == 0 || next != title) {
			title = next
			t.rows = append(t.rows, tableRow{title: title})
		}
		t.rows = append(t.rows, tableRow{entry: e})
	}
	for id := range t.marks {
		if inv.entries[id] == nil {
			delete(t.marks, id)
		}
	}
	t.find()
	t.fitColumns()
}

// arrange sorts by group, the sort column, name and id, so that equal rows keep their order.
func (t *table) arrange(entries []*entry) {
	compare := byName
	if c, ok := columnNamed(t.sort); ok {
		compare = c.compare
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		if t.group != groupNone {
			if c := cmp.Compare(t.groupOf(a), t.groupOf(b)); c != 0 {
				return c
			}
		}
		c := compare(a, b)
		if t.reverse {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.box.Name, b.box.Name), cmp.Compare(a.box.ID, b.box.ID))
	})
}

func (t *table) groupOf(e *entry) string {
	if t.group == groupProvider {
		return e.box.Provider
	}
	return cmp.Or(e.search[3], "no app")
}

// matches reports whether each term matches some field fuzzily, or is a substring of the id. A fuzzy match of the
// random id would find too much.
func matches(e *entry, terms []string) bool {
	for _, term := range terms {
		if !strings.Contains(e.box.ID, term) && len(fuzzy.FindNoSort(term, e.search)) == 0 {
			return false
		}
	}
	return true
}

// find moves the cursor's row to its sandbox.
func (t *table) find() {
	under := func(r tableRow) bool { return r.entry != nil && r.entry.box.ID == t.cursor }
	if i := slices.IndexFunc(t.rows, under); i >= 0 {
		t.at = i
	} else {
		t.at = min(t.at, len(t.rows)-1)
		t.settle(1)
	}
	t.scroll()
}

// settle moves the cursor from a title to the next sandbox in the direction of step, or else in the other one.
func (t *table) settle(step int) {
	t.at = min(max(t.at, 0), max(0, len(t.rows)-1))
	for i := t.at; i >= 0 && i < len(t.rows); i += step {
		if t.rows[i].entry != nil {
			t.at = i
			break
		}
	}
	if t.at < len(t.rows) && t.rows[t.at].entry == nil { // only titles in this direction
		for i := t.at; i >= 0 && i < len(t.rows); i -= step {
			if t.rows[i].entry != nil {
				t.at = i
				break
			}
		}
	}
	t.cursor = ""
	if t.at < len(t.rows) && t.rows[t.at].entry != nil {
		t.cursor = t.rows[t.at].entry.box.ID
	}
}

// move moves the cursor by a number of rows.
func (t *table) move(by int) {
	step := 1
	if by < 0 {
		step = -1
	}
	t.at += by
	t.settle(step)
	t.scroll()
}

// page returns the number of rows on the screen.
func (t *table) page() int { return max(1, t.size.h-1) }

// scroll makes the cursor visible.
func (t *table) scroll() {
	page := t.page()
	t.offset = min(t.offset, t.at)
	t.offset = max(t.offset, t.at-page+1)
	t.offset = min(max(t.offset, 0), max(0, len(t.rows)-page))
	if t.offset == 1 && t.rows[0].entry == nil {
		t.offset = 0 // the first group's title
		if t.at >= page {
			t.offset = 1
		}
	}
}

// wheel scrolls. The cursor moves only to stay on the screen.
func (t *table) wheel(by int) {
	page := t.page()
	t.offset = min(max(t.offset+by, 0), max(0, len(t.rows)-page))
	t.at = min(max(t.at, t.offset), t.offset+page-1)
	t.settle(1)
}

// selected returns the sandbox under the cursor, or nil.
func (t *table) selected() *entry {
	if t.at < 0 || t.at >= len(t.rows) {
		return nil
	}
	return t.rows[t.at].entry
}

// chosen returns the marked sandboxes among the rows, or else the one under the cursor. Hidden sandboxes are left
// out, even if marked: an action never applies to a sandbox that the table does not show.
func (t *table) chosen() []*entry {
	var chosen []*entry
	for _, r := range t.rows {
		if r.entry != nil && t.marks[r.entry.box.ID] {
			chosen = append(chosen, r.entry)
		}
	}
	if e := t.selected(); len(chosen) == 0 && e != nil {
		return []*entry{e}
	}
	return chosen
}

// marked counts the marked sandboxes, and the hidden ones among them.
func (t *table) marked() (all, hidden int) {
	hidden = len(t.marks)
	for _, r := range t.rows {
		if r.entry != nil && t.marks[r.entry.box.ID] {
			hidden--
		}
	}
	return len(t.marks), hidden
}

// mark toggles the mark of the sandbox under the cursor and moves to the next.
func (t *table) mark() {
	if e := t.selected(); e != nil {
		if t.marks[e.box.ID] {
			delete(t.marks, e.box.ID)
		} else {
			t.marks[e.box.ID] = true
		}
		t.move(1)
	}
}

// boxes returns the sandboxes of all rows.
func (t *table) boxes() []core.Sandbox {
	var boxes []core.Sandbox
	for _, r := range t.rows {
		if r.entry != nil {
			boxes = append(boxes, r.entry.box)
		}
	}
	return boxes
}

// markAll replaces all marks by these sandboxes, or removes all marks when these are all marked.
func (t *table) markAll(boxes []core.Sandbox) {
	all := true
	for _, box := range boxes {
		all = all && t.marks[box.ID]
	}
	clear(t.marks)
	if all {
		return
	}
	for _, box := range boxes {
		t.marks[box.ID] = true
	}
}

// sortNext sorts by the next visible column.
func (t *table) sortNext(step int) {
	if len(t.shown) == 0 {
		return
	}
	i := slices.IndexFunc(t.shown, func(c column) bool { return c.id == t.sort })
	t.sort = t.shown[(i+step+len(t.shown))%len(t.shown)].id
	t.reverse = false
}

// sortAt sorts by the column at cell x of the header, or reverses its order.
func (t *table) sortAt(x int) {
	left := markWidth
	for i, c := range t.shown {
		if x >= left && x < left+t.widths[i]+1 {
			t.reverse = t.sort == c.id && !t.reverse
			t.sort = c.id
			return
		}
		left += t.widths[i] + 1
	}
}

// rowAt returns the row at a line of the pane, or -1.
func (t *table) rowAt(y int) int {
	if i := t.offset + y - 1; y > 0 && i < len(t.rows) {
		return i
	}
	return -1
}

// goTo moves the cursor to a row.
func (t *table) goTo(row int) {
	t.at = row
	t.settle(1)
	t.scroll()
}

// visible returns the sandboxes on the screen.
func (t *table) visible() []*entry {
	var entries []*entry
	for _, r := range t.rows[min(t.offset, len(t.rows)):min(t.offset+t.page(), len(t.rows))] {
		if r.entry != nil {
			entries = append(entries, r.entry)
		}
	}
	return entries
}

func (t *table) setSize(r rect) {
	t.size = r
	t.fitColumns()
	t.scroll()
}

// markWidth is the number of cells before the first column.
const markWidth = 2

func (t *table) fitColumns() {
	t.shown, t.widths = chooseColumns(t.wanted, t.size.w-markWidth)
}

// live counts the live sandboxes.
func (inv *inventory) live() int {
	n := 0
	for _, e := range inv.entries {
		if e.box.State.Live() {
			n++
		}
	}
	return n
}

// view draws the table.
func (t *table) view(s *theme.Styles, focus bool, now time.Time) []string {
	lines := make([]string, 0, t.size.h)
	lines = append(lines, t.header(s))
	end := min(t.offset+t.page(), len(t.rows))
	for i := t.offset; i < end; i++ {
		lines = append(lines, t.row(s, i, focus, now))
	}
	return screen.Block(lines, t.size.w, t.size.h)
}

func (t *table) header(s *theme.Styles) string {
	var b strings.Builder
	b.WriteString(screen.Blanks(markWidth))
	for i, c := range t.shown {
		title, p := c.title, s.Header
		if c.id == t.sort {
			p = s.HeaderSorted
			title += "▲"
			if t.reverse {
				title = c.title + "▼"
			}
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if c.right {
			b.WriteString(p.On(screen.FitRight(title, t.widths[i])))
		} else {
			b.WriteString(p.On(screen.Fit(title, t.widths[i])))
		}
	}
	return b.String()
}

func (t *table) row(s *theme.Styles, i int, focus bool, now time.Time) string {
	r := t.rows[i]
	if r.entry == nil {
		count := 0
		for _, other := range t.rows[i+1:] {
			if other.entry == nil {
				break
			}
			count++
		}
		return s.Group.On(screen.Cut("▾ "+r.title+" ("+format.Plural(count, "sandbox", "sandboxes")+")", t.size.w))
	}
	var b strings.Builder
	current := i == t.at
	_, stale := r.entry.from.old(now)
	marker := "  "
	if t.marks[r.entry.box.ID] {
		marker = "◆ "
	}
	if current {
		b.WriteString(marker)
	} else {
		b.WriteString(s.Marked.On(marker))
	}
	for j, c := range t.shown {
		text := c.text(r.entry, now)
		if c.right {
			text = screen.FitRight(text, t.widths[j])
		} else {
			text = screen.Fit(text, t.widths[j])
		}
		if j > 0 {
			b.WriteByte(' ')
		}
		switch {
		case current:
			b.WriteString(text)
		case stale:
			b.WriteString(s.Stale.On(text))
		default:
			b.WriteString(c.paint(s, r.entry).On(text))
		}
	}
	if !current {
		return b.String()
	}
	if focus {
		return s.Selected.On(screen.Fit(b.String(), t.size.w))
	}
	return s.SelectedOut.On(screen.Fit(b.String(), t.size.w))
}

// dead reports whether a sandbox is nil or has ended.
func dead(e *entry) bool { return e == nil || !e.box.State.Live() }

// running reports whether a sandbox can run commands.
func running(e *entry) bool { return e != nil && e.box.State == core.StateRunning }
