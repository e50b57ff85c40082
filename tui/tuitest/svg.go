package tuitest

import (
	"fmt"
	"html"
	"image/color"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
)

// The picture's dimensions in pixels, and the terminal's default colors.
const (
	cellWidth, cellHeight = 8.4, 18
	margin                = 14
	background            = "#15181e"
	foreground            = "#d7dae0"
)

// SVG returns a picture of the screen.
func (t *Terminal) SVG() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, h := t.screen.Width(), t.screen.Height()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" `+
		`font-family="'DejaVu Sans Mono','Cascadia Mono',Menlo,Consolas,monospace" font-size="14">`+"\n",
		float64(w)*cellWidth+2*margin, h*cellHeight+2*margin)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for y := range h {
		t.svgLine(&b, y, w)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// svgLine draws a line as runs of cells of the same style.
func (t *Terminal) svgLine(b *strings.Builder, y, w int) {
	for x := 0; x < w; {
		cell := t.screen.CellAt(x, y)
		if cell == nil {
			x++
			continue
		}
		begin, style := x, cell.Style
		var text strings.Builder
		for x < w {
			next := t.screen.CellAt(x, y)
			if next == nil || !next.Style.Equal(&style) {
				break
			}
			text.WriteString(next.Content)
			x += max(1, next.Width)
		}
		svgRun(b, text.String(), style, begin, y, x-begin)
	}
}

func svgRun(b *strings.Builder, text string, style uv.Style, x, y, cells int) {
	front, back := hex(style.Fg, foreground), hex(style.Bg, "")
	if style.Attrs&uv.AttrReverse != 0 {
		front, back = orElse(back, background), front
	}
	left, top := margin+float64(x)*cellWidth, margin+y*cellHeight
	if back != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`,
			left, top, float64(cells)*cellWidth, cellHeight, back)
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	var extra string
	if style.Attrs&uv.AttrBold != 0 {
		extra += ` font-weight="bold"`
	}
	if style.Attrs&uv.AttrItalic != 0 {
		extra += ` font-style="italic"`
	}
	if style.Attrs&uv.AttrFaint != 0 {
		extra += ` opacity="0.6"`
	}
	if style.Underline != 0 {
		extra += ` text-decoration="underline"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" textLength="%.1f" xml:space="preserve"%s>%s</text>`+"\n",
		left, top+cellHeight-5, front, float64(cells)*cellWidth, extra, html.EscapeString(text))
}

func hex(c color.Color, other string) string {
	if c == nil {
		return other
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
