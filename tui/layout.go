package tui

// Below smallWidth or smallHeight the screen shows one pane; from sideWidth the panes are side by side.
const (
	smallWidth, smallHeight = 70, 20
	sideWidth               = 150
	minPane                 = 4
)

// pane is a part of the body that can be focused.
type pane int

const (
	paneTable pane = iota
	paneDetail
)

// arrangement has the settings of a layout.
type arrangement struct {
	// split is "auto", "side" or "stack".
	split string
	// ratio is the table's share of the body in percent.
	ratio int
	// zoomed shows only the focused pane.
	zoomed bool
	focus  pane
	// tableOnly is "sb top".
	tableOnly bool
	jobs      int
}

// layout has the rectangles of a screen. Hidden parts are empty.
type layout struct {
	w, h                            int
	header, table, splitter, detail rect
	jobs, footer                    rect
	// side reports that the panes are side by side and the splitter is a column.
	side bool
}

// arrange computes the rectangles for a screen of w by h cells.
func arrange(w, h int, a arrangement) layout {
	l := layout{w: w, h: h}
	if w < 1 || h < 1 {
		return l
	}
	top, bottom := 0, h
	if h > 2 {
		l.header = rect{0, 0, w, 1}
		top = 1
	}
	if h > 1 {
		bottom--
		l.footer = rect{0, bottom, w, 1}
	}
	if jobs := min(a.jobs, 3, max(0, bottom-top-2*minPane)); jobs > 0 {
		bottom -= jobs
		l.jobs = rect{0, bottom, w, jobs}
	}
	body := rect{0, top, w, bottom - top}
	single := a.tableOnly || a.zoomed || (w < smallWidth || h < smallHeight) && a.split == splitAuto ||
		body.h < 2*minPane+1
	switch {
	case single && (a.focus == paneTable || a.tableOnly):
		l.table = body
	case single:
		l.detail = body
	case a.split == splitSide || a.split == splitAuto && w >= sideWidth:
		l.side = true
		left := share(w-1, a.ratio, 20)
		l.table = rect{0, body.y, left, body.h}
		l.splitter = rect{left, body.y, 1, body.h}
		l.detail = rect{left + 1, body.y, w - left - 1, body.h}
	default:
		upper := share(body.h-1, a.ratio, minPane)
		l.table = rect{0, body.y, w, upper}
		l.splitter = rect{0, body.y + upper, w, 1}
		l.detail = rect{0, body.y + upper + 1, w, body.h - upper - 1}
	}
	return l
}

// share returns percent of total, such that both parts have at least least.
func share(total, percent, least int) int {
	least = min(least, total/2)
	return min(max(total*percent/100, least), total-least)
}

// ratioAt returns the ratio that puts the splitter at a cell.
func (l layout) ratioAt(x, y int) int {
	body, at := l.table.h+l.detail.h, y-l.table.y
	if l.side {
		body, at = l.table.w+l.detail.w, x-l.table.x
	}
	if body <= 0 {
		return 50
	}
	return min(max((at*100+body/2)/body, 10), 90)
}

// The values of arrangement.split.
const (
	splitAuto  = "auto"
	splitSide  = "side"
	splitStack = "stack"
)

// rect is a part of the screen in cells.
type rect struct{ x, y, w, h int }

func (r rect) contains(x, y int) bool {
	return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h
}

func (r rect) empty() bool { return r.w <= 0 || r.h <= 0 }
