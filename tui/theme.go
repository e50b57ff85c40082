package tui

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
)

// The themes. ThemeAuto is dark or light, depending on the terminal's background.
const (
	ThemeAuto     = "auto"
	ThemeDark     = "dark"
	ThemeLight    = "light"
	ThemeContrast = "contrast"
	ThemePlain    = "plain" // no colors, as with NO_COLOR
)

// Themes lists the available themes.
func Themes() []string {
	return []string{ThemeAuto, ThemeDark, ThemeLight, ThemeContrast, ThemePlain}
}

// paint is a style as escape sequences around text. Joining strings is much faster than a lipgloss style per cell.
type paint struct{ open, close string }

func newPaint(style lipgloss.Style) paint {
	open, closing, _ := strings.Cut(style.Render("x"), "x")
	return paint{open, closing}
}

// on paints text that has no colors of its own.
func (p paint) on(text string) string {
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

// styles are the tokens. Nothing else in the package names a color.
type styles struct {
	theme string

	text, strong, faint            paint
	brand                          paint
	border, borderFocus            paint
	header, headerSorted, group    paint
	selected, selectedOut          paint // the row under the cursor, with and without the focus
	marked                         paint
	good, warn, bad, info, off     paint // states
	stale                          paint
	tab, tabActive                 paint
	key, help                      paint
	match, matchCurrent            paint
	stderr                         paint
	processor, memory, network     paint
	frame, dialog, dialogTitle     paint
	field, fieldActive, fieldWrong paint
	button, buttonActive           paint
	toast, toastWarn, toastBad     paint
	bar                            paint
}

func palettes(theme string) palette {
	c := lipgloss.Color
	switch theme {
	case ThemeLight:
		return palette{
			text: c("#24292f"), faint: c("#656d76"), accent: c("#6639ba"),
			good: c("#116329"), warn: c("#7d4e00"), bad: c("#b3151d"), info: c("#0550ae"),
			selected: c("#d0e3fb"), selectedFaint: c("#e4e8ec"), onSelected: c("#0b1f38"), panel: c("#f0f2f5"),
			processor: c("#0550ae"), memory: c("#6639ba"), network: c("#116329"),
		}
	case ThemeContrast:
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

func newStyles(theme string) *styles {
	if theme == ThemePlain {
		return plainStyles()
	}
	p := palettes(theme)
	fg := func(c color.Color) lipgloss.Style { return lipgloss.NewStyle().Foreground(c) }
	plain := func(c color.Color) paint { return newPaint(fg(c)) }
	bold := func(c color.Color) paint { return newPaint(fg(c).Bold(true)) }
	filled := func(text, back color.Color) paint { return newPaint(fg(text).Background(back)) }
	return &styles{
		theme: theme,
		text:  plain(p.text), strong: bold(p.text), faint: plain(p.faint), brand: bold(p.accent),
		border: plain(p.faint), borderFocus: plain(p.accent),
		header: bold(p.faint), headerSorted: bold(p.accent), group: bold(p.info),
		selected: filled(p.onSelected, p.selected), selectedOut: filled(p.text, p.selectedFaint), marked: bold(p.warn),
		good: plain(p.good), warn: plain(p.warn), bad: plain(p.bad), info: plain(p.info), off: plain(p.faint),
		stale: newPaint(fg(p.faint).Italic(true)),
		tab:   plain(p.faint), tabActive: newPaint(fg(p.accent).Bold(true).Underline(true)),
		key: bold(p.accent), help: plain(p.faint),
		match:        newPaint(fg(p.onSelected).Background(p.selected)),
		matchCurrent: newPaint(fg(p.onSelected).Background(p.selected).Reverse(true)),
		stderr:       plain(p.warn), processor: plain(p.processor), memory: plain(p.memory), network: plain(p.network),
		frame: plain(p.accent), dialog: plain(p.text), dialogTitle: bold(p.accent),
		field: plain(p.text), fieldActive: newPaint(fg(p.text).Bold(true)), fieldWrong: plain(p.bad),
		button:       filled(p.text, p.selectedFaint),
		buttonActive: newPaint(fg(p.onSelected).Background(p.selected).Bold(true)),
		toast:        filled(p.text, p.panel), toastWarn: filled(p.warn, p.panel), toastBad: filled(p.bad, p.panel),
		bar: plain(p.accent),
	}
}

// plainStyles uses no colors, only bold, faint, reverse and underline.
func plainStyles() *styles {
	none := paint{}
	style := lipgloss.NewStyle()
	bold, reverse := newPaint(style.Bold(true)), newPaint(style.Reverse(true))
	underline, faint := newPaint(style.Underline(true)), newPaint(style.Faint(true))
	loud := newPaint(style.Bold(true).Reverse(true))
	return &styles{
		theme: ThemePlain,
		text:  none, strong: bold, faint: faint, brand: bold, border: faint, borderFocus: none,
		header: underline, headerSorted: newPaint(style.Underline(true).Bold(true)), group: bold,
		selected: reverse, selectedOut: underline, marked: bold,
		good: none, warn: bold, bad: bold, info: none, off: faint, stale: faint,
		tab: none, tabActive: reverse, key: bold, help: none, match: reverse, matchCurrent: loud, stderr: none,
		frame: none, dialog: none, dialogTitle: bold, field: none, fieldActive: bold, fieldWrong: bold,
		button: none, buttonActive: reverse, toast: reverse, toastWarn: loud, toastBad: loud, bar: none,
	}
}
