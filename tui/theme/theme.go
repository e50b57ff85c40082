package theme

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
)

// The names of the themes. Auto is dark or light, depending on the terminal's background.
const (
	Auto     = "auto"
	Dark     = "dark"
	Light    = "light"
	Contrast = "contrast"
	Plain    = "plain" // no colors, as with NO_COLOR
)

// Names lists the themes.
func Names() []string {
	return []string{Auto, Dark, Light, Contrast, Plain}
}

// Paint is a style as escape sequences around text. Joining strings is much faster than a lipgloss style per cell.
type Paint struct{ open, close string }

func newPaint(style lipgloss.Style) Paint {
	open, closing, _ := strings.Cut(style.Render("x"), "x")
	return Paint{open, closing}
}

// On paints text without colors.
func (p Paint) On(text string) string {
	if p.open == "" || text == "" {
		return text
	}
	return p.open + text + p.close
}

// palette has the colors of a theme; nil is the terminal's own.
type palette struct {
	text, faint, accent, good, warn, bad, info color.Color
	selected, selectedFaint, onSelected, panel color.Color
	processor, memory, network                 color.Color
}

// Styles are the tokens. No other package of the dashboard names a color.
type Styles struct {
	Theme string

	Text, Strong, Faint            Paint
	Brand                          Paint
	Border, BorderFocus            Paint
	Header, HeaderSorted, Group    Paint
	Selected, SelectedOut          Paint // the row under the cursor, with and without the focus
	Marked                         Paint
	Good, Warn, Bad, Info, Off     Paint // states
	Stale                          Paint
	Tab, TabActive                 Paint
	Key, Help                      Paint
	Match, MatchCurrent            Paint
	Stderr                         Paint
	Processor, Memory, Network     Paint
	Frame, Dialog, DialogTitle     Paint
	Field, FieldActive, FieldWrong Paint
	Button, ButtonActive           Paint
	Toast, ToastWarn, ToastBad     Paint
	Bar                            Paint
}

func palettes(theme string) palette {
	c := lipgloss.Color
	switch theme {
	case Light:
		return palette{
			text: c("#24292f"), faint: c("#656d76"), accent: c("#6639ba"),
			good: c("#116329"), warn: c("#7d4e00"), bad: c("#b3151d"), info: c("#0550ae"),
			selected: c("#d0e3fb"), selectedFaint: c("#e4e8ec"), onSelected: c("#0b1f38"), panel: c("#f0f2f5"),
			processor: c("#0550ae"), memory: c("#6639ba"), network: c("#116329"),
		}
	case Contrast:
		return palette{
			text: c("#ffffff"), faint: c("#d0d0d0"), accent: c("#ffff00"),
			good: c("#00ff66"), warn: c("#ffd700"), bad: c("#ff6b6b"), info: c("#66d9ff"),
			selected: c("#ffff00"), selectedFaint: c("#5f5f5f"), onSelected: c("#000000"), panel: c("#000000"),
			processor: c("#66d9ff"), memory: c("#ffff00"), network: c("#00ff66"),
		}
	default:
		return palette{
			text: c("#d7dae0"), faint: c("#848b98"), accent: c("#b392f0"),
			good: c("#7ee787"), warn: c("#e3b341"), bad: c("#ff7b72"), info: c("#79c0ff"),
			selected: c("#264f78"), selectedFaint: c("#32363e"), onSelected: c("#ffffff"), panel: c("#21252b"),
			processor: c("#79c0ff"), memory: c("#b392f0"), network: c("#7ee787"),
		}
	}
}

// New returns the styles of a theme. Auto is as Dark: the caller asks the terminal.
func New(theme string) *Styles {
	if theme == Plain {
		return plainStyles()
	}
	p := palettes(theme)
	fg := func(c color.Color) lipgloss.Style { return lipgloss.NewStyle().Foreground(c) }
	plain := func(c color.Color) Paint { return newPaint(fg(c)) }
	bold := func(c color.Color) Paint { return newPaint(fg(c).Bold(true)) }
	filled := func(text, back color.Color) Paint { return newPaint(fg(text).Background(back)) }
	return &Styles{
		Theme: theme,
		Text:  plain(p.text), Strong: bold(p.text), Faint: plain(p.faint), Brand: bold(p.accent),
		Border: plain(p.faint), BorderFocus: plain(p.accent),
		Header: bold(p.faint), HeaderSorted: bold(p.accent), Group: bold(p.info),
		Selected: filled(p.onSelected, p.selected), SelectedOut: filled(p.text, p.selectedFaint), Marked: bold(p.warn),
		Good: plain(p.good), Warn: plain(p.warn), Bad: plain(p.bad), Info: plain(p.info), Off: plain(p.faint),
		Stale: newPaint(fg(p.faint).Italic(true)),
		Tab:   plain(p.faint), TabActive: newPaint(fg(p.accent).Bold(true).Underline(true)),
		Key: bold(p.accent), Help: plain(p.faint),
		Match:        newPaint(fg(p.onSelected).Background(p.selected)),
		MatchCurrent: newPaint(fg(p.onSelected).Background(p.selected).Reverse(true)),
		Stderr:       plain(p.warn), Processor: plain(p.processor), Memory: plain(p.memory), Network: plain(p.network),
		Frame: plain(p.accent), Dialog: plain(p.text), DialogTitle: bold(p.accent),
		Field: plain(p.text), FieldActive: newPaint(fg(p.text).Bold(true)), FieldWrong: plain(p.bad),
		Button:       filled(p.text, p.selectedFaint),
		ButtonActive: newPaint(fg(p.onSelected).Background(p.selected).Bold(true)),
		Toast:        filled(p.text, p.panel), ToastWarn: filled(p.warn, p.panel), ToastBad: filled(p.bad, p.panel),
		Bar: plain(p.accent),
	}
}

// plainStyles uses no colors, only bold, faint, reverse and underline.
func plainStyles() *Styles {
	none := Paint{}
	style := lipgloss.NewStyle()
	bold, reverse := newPaint(style.Bold(true)), newPaint(style.Reverse(true))
	underline, faint := newPaint(style.Underline(true)), newPaint(style.Faint(true))
	loud := newPaint(style.Bold(true).Reverse(true))
	return &Styles{
		Theme: Plain,
		Text:  none, Strong: bold, Faint: faint, Brand: bold, Border: faint, BorderFocus: none,
		Header: underline, HeaderSorted: newPaint(style.Underline(true).Bold(true)), Group: bold,
		Selected: reverse, SelectedOut: underline, Marked: bold,
		Good: none, Warn: bold, Bad: bold, Info: none, Off: faint, Stale: faint,
		Tab: none, TabActive: reverse, Key: bold, Help: none, Match: reverse, MatchCurrent: loud, Stderr: none,
		Frame: none, Dialog: none, DialogTitle: bold, Field: none, FieldActive: bold, FieldWrong: bold,
		Button: none, ButtonActive: reverse, Toast: reverse, ToastWarn: loud, ToastBad: loud, Bar: none,
	}
}
