package tui

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif"  // for image.DecodeConfig
	_ "image/jpeg" // for image.DecodeConfig
	_ "image/png"  // for image.DecodeConfig
	"io/fs"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// maxPreview is how many bytes of a file are read for its preview.
const maxPreview = 64 << 10

// filesTab shows a sandbox's files as a tree. A directory is read when it is opened.
type filesTab struct {
	root   string
	dirs   map[string]*dir
	rows   []fileRow
	cursor string // a path
	at     int
	offset int
	h      int

	preview *preview
	// full shows the preview without the tree, on narrow screens.
	full  bool
	above int // the first visible line of the preview
}

// dir is a directory of the tree.
type dir struct {
	infos   []core.FileInfo
	err     error
	open    bool
	loading bool
}

// fileRow is one line of the tree: a file, or a note such as an error below its directory.
type fileRow struct {
	depth int
	info  core.FileInfo
	note  string
}

// name returns the text of the line.
func (r fileRow) name() string {
	if r.note != "" {
		return r.note
	}
	return safe(path.Base(r.info.Path))
}

// preview is the beginning of a file, with facts about it.
type preview struct {
	info  core.FileInfo
	facts []string
	lines []string
	err   error
}

// describe fills the preview from the beginning of a file: text as lines, binary as hex, images as facts.
func (p *preview) describe(head []byte) {
	p.facts = append(p.facts, core.Bytes(p.info.Size).String(), http.DetectContentType(head))
	if config, format, err := image.DecodeConfig(bytes.NewReader(head)); err == nil {
		p.facts = append(p.facts, fmt.Sprintf("%s image, %d × %d", format, config.Width, config.Height))
		return
	}
	if len(head) == 0 {
		p.facts = append(p.facts, "empty")
		return
	}
	if bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(wholeRunes(head)) {
		p.facts = append(p.facts, "binary")
		for i := 0; i < min(len(head), 1024); i += 16 {
			p.lines = append(p.lines, fmt.Sprintf("%08x  % x", i, head[i:min(i+16, len(head))]))
		}
		return
	}
	var s guesttext.Splitter
	s.Write(head, func(line string) { p.lines = append(p.lines, line) })
	if last := s.Partial(); last != "" {
		p.lines = append(p.lines, last)
	}
	if int64(len(head)) < p.info.Size {
		p.facts = append(p.facts, "truncated")
	}
}

// wholeRunes returns text without an incomplete character at its end.
func wholeRunes(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// begin resets the tree to the sandbox's root directory, still unread.
func (f *filesTab) begin() {
	*f = filesTab{root: "/", dirs: map[string]*dir{"/": {open: true, loading: true}}, h: f.h}
}

// Take stores the listing of a directory.
func (f *filesTab) Take(msg dirMsg) {
	d := f.dirs[msg.path]
	if d == nil { // a link to a directory
		d = &dir{open: true}
		f.dirs[msg.path] = d
	}
	d.infos, d.err, d.loading = msg.infos, msg.err, false
	f.flatten()
}

func (f *filesTab) flatten() {
	f.rows = f.rows[:0]
	f.walk(f.root, 0)
	for i, r := range f.rows {
		if r.info.Path == f.cursor && r.note == "" {
			f.at = i
		}
	}
	f.move(0)
}

func (f *filesTab) walk(name string, depth int) {
	d := f.dirs[name]
	switch {
	case d.err != nil:
		f.rows = append(f.rows, fileRow{depth: depth, info: core.FileInfo{Path: name}, note: "✗ " + safe(d.err.Error())})
		return
	case d.loading && len(d.infos) == 0:
		f.rows = append(f.rows, fileRow{depth: depth, info: core.FileInfo{Path: name}, note: "…"})
		return
	case len(d.infos) == 0:
		f.rows = append(f.rows, fileRow{depth: depth, info: core.FileInfo{Path: name}, note: "empty"})
		return
	}
	for _, info := range d.infos {
		f.rows = append(f.rows, fileRow{depth: depth, info: info})
		if below := f.dirs[info.Path]; below != nil && below.open {
			f.walk(info.Path, depth+1)
		}
	}
}

func (f *filesTab) move(by int) {
	f.at = min(max(f.at+by, 0), max(0, len(f.rows)-1))
	if f.at < len(f.rows) {
		f.cursor = f.rows[f.at].info.Path
	}
	page := max(1, f.h)
	f.offset = min(f.offset, f.at)
	f.offset = max(f.offset, f.at-page+1, 0)
}

// selected returns the file under the cursor. It returns false on a note.
func (f *filesTab) selected() (core.FileInfo, bool) {
	if f.at < 0 || f.at >= len(f.rows) || f.rows[f.at].note != "" {
		return core.FileInfo{}, false
	}
	return f.rows[f.at].info, true
}

// here returns the directory under the cursor, or the one around it.
func (f *filesTab) here() string {
	info, ok := f.selected()
	switch {
	case ok && info.Mode.IsDir():
		return info.Path
	case f.at < len(f.rows) && f.rows[f.at].note != "": // a note has the path of its directory
		return f.rows[f.at].info.Path
	case f.at < len(f.rows):
		return path.Dir(f.rows[f.at].info.Path)
	}
	return f.root
}

// toggle opens or closes a directory and reports whether it must be read.
func (f *filesTab) toggle(name string) (read bool) {
	d := f.dirs[name]
	if d == nil {
		d = &dir{}
		f.dirs[name] = d
	}
	d.open = !d.open
	read = d.open && len(d.infos) == 0 && !d.loading
	d.loading = d.loading || read
	f.flatten()
	return read
}

// shut closes the directory under the cursor, or moves to the parent.
func (f *filesTab) shut() {
	info, ok := f.selected()
	if d := f.dirs[info.Path]; ok && d != nil && d.open {
		d.open = false
		f.flatten()
		return
	}
	if f.at < len(f.rows) {
		f.cursor = path.Dir(f.rows[f.at].info.Path)
		f.flatten()
	}
}

func (f *filesTab) view(s *theme.Styles, w, h int, focus bool, find finder) []string {
	f.h = h
	f.move(0)
	const least = 60
	if f.preview == nil {
		return f.tree(s, w, h, focus, find.query)
	}
	if w < least || f.full {
		return f.show(s, w, h, find)
	}
	left := w * 2 / 5
	bar := make([]string, h)
	for i := range bar {
		bar[i] = s.Border.On("│")
	}
	return screen.JoinSides(screen.Block(f.tree(s, left, h, focus, find.query), left, h), bar,
		screen.Block(f.show(s, w-left-1, h, newFinder("")), w-left-1, h))
}

func (f *filesTab) tree(s *theme.Styles, w, h int, focus bool, query string) []string {
	var lines []string
	for i := f.offset; i < len(f.rows) && len(lines) < h; i++ {
		r := f.rows[i]
		mark, p, name := "  ", s.Text, r.name()
		detail := ""
		switch mode := r.info.Mode; {
		case r.note != "":
			p = s.Faint
		case mode.IsDir():
			mark, p, name = "▸ ", s.Info, name+"/"
			if d := f.dirs[r.info.Path]; d != nil && d.open {
				mark = "▾ "
			}
		case mode&fs.ModeSymlink != 0:
			p, name = s.Faint, name+" → "+safe(r.info.Link)
			if d := f.dirs[r.info.Path]; d != nil {
				mark = map[bool]string{true: "▾ ", false: "▸ "}[d.open]
			}
		case mode.IsRegular():
			if detail = format.Short(core.Bytes(r.info.Size)); mode&0o111 != 0 {
				p, name = s.Good, name+"*"
			}
		default:
			p = s.Warn
		}
		text := strings.Repeat("  ", r.depth) + mark + name
		text = screen.Fit(text, max(1, w-7)) + " " + screen.FitRight(detail, 6)
		switch current := i == f.at; {
		case current && focus:
			text = s.Selected.On(screen.Fit(text, w))
		case current:
			text = s.SelectedOut.On(screen.Fit(text, w))
		default:
			text = highlight(s, p.On(text), query, false)
		}
		lines = append(lines, text)
	}
	return lines
}

func (f *filesTab) show(s *theme.Styles, w, h int, find finder) []string {
	p := f.preview
	facts := core.ModeText(p.info.Mode) + " · " + strings.Join(p.facts, " · ")
	lines := []string{s.Strong.On(screen.Cut(safe(p.info.Path), w)), s.Faint.On(screen.Cut(facts, w))}
	if p.err != nil {
		return append(lines, problem(s, p.err, w)...)
	}
	f.above = min(f.above, max(0, len(p.lines)-1))
	for i, l := range p.lines[f.above:] {
		if len(lines) >= h {
			break
		}
		lines = append(lines, screen.Cut(highlight(s, l, find.query, f.above+i == find.current), w))
	}
	return lines
}
