package guesttext

import (
	"unicode/utf8"
)

const (
	tabStop = 8
	// maxLine is the longest line in bytes. A longer one is split.
	maxLine = 16 << 10
)

// Splitter splits a stream of output into safe lines. Each line sets its own colors, starting with those of the
// previous line, and ends with the default colors. The zero value is ready for use.
type Splitter struct {
	held     []byte // an incomplete escape sequence or character
	line     []byte
	column   int // approximate: combining and wide characters count as one
	pen      pen
	drawn    pen  // the last pen written to line
	returned bool // the last character was a carriage return
	emoji    simplifier
}

// Write takes output and emits each completed line, without its line feed.
func (s *Splitter) Write(data []byte, emit func(line string)) {
	if len(s.held) > 0 {
		data = append(s.held, data...)
		s.held = nil
	}
	for len(data) > 0 {
		run := printable(data)
		if run > 0 {
			s.emoji.joined = false
			s.text(data[:run], emit)
			s.column += run
			data = data[run:]
			continue
		}
		n := s.special(data, emit)
		if n == 0 {
			s.held = append([]byte(nil), data...)
			return
		}
		data = data[n:]
	}
}

// Partial returns the unfinished line, or "".
func (s *Splitter) Partial() string {
	return s.finished()
}

func printable(data []byte) int {
	for i, c := range data {
		if c < 0x20 || c >= 0x7f {
			return i
		}
	}
	return len(data)
}

// special handles data that does not start with printable ASCII and returns the number of bytes used. 0 means that
// data is incomplete.
func (s *Splitter) special(data []byte, emit func(string)) int {
	switch c := data[0]; {
	case c == '\n':
		s.end(emit)
		return 1
	case c == '\r':
		s.returned = true
		return 1
	case c == '\t':
		blanks := tabStop - s.column%tabStop
		s.text([]byte("        ")[:blanks], emit)
		s.column += blanks
		return 1
	case c == esc:
		n, whole := sequence(data)
		if !whole {
			return 0
		}
		if n > 2 && data[1] == '[' && data[n-1] == 'm' && isSGR(data[2:n-1]) {
			s.pen.set(string(data[2 : n-1]))
		}
		return n
	case c < 0x20 || c == 0x7f:
		if c != bell && c != 0x08 {
			s.text(utf8.AppendRune(nil, picture(rune(c))), emit)
			s.column++
		}
		return 1
	}
	if !utf8.FullRune(data) {
		return 0
	}
	r, size := utf8.DecodeRune(data)
	if r, drawn := s.emoji.simplify(r); drawn {
		s.text(utf8.AppendRune(nil, r), emit)
		s.column++
	}
	return size
}

// isSGR reports whether params are those of a plain SGR sequence. Other sequences that end in "m" change keyboard
// modes.
func isSGR(params []byte) bool {
	for _, c := range params {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}

// text appends to the line. After a carriage return it replaces the line, as progress bars do.
func (s *Splitter) text(data []byte, emit func(string)) {
	if s.returned {
		s.clear()
	}
	for len(s.line)+len(data) > maxLine {
		n := max(0, maxLine-len(s.line))
		for n > 0 && n < len(data) && !utf8.RuneStart(data[n]) {
			n--
		}
		s.put(data[:n])
		data = data[n:]
		s.end(emit)
	}
	s.put(data)
}

func (s *Splitter) put(data []byte) {
	if s.drawn != s.pen {
		s.line = append(s.line, s.pen.code()...)
		s.drawn = s.pen
	}
	s.line = append(s.line, data...)
}

func (s *Splitter) end(emit func(string)) {
	emit(s.finished())
	s.clear()
}

func (s *Splitter) finished() string {
	if s.drawn != (pen{}) {
		return string(s.line) + reset
	}
	return string(s.line)
}

func (s *Splitter) clear() {
	s.line, s.column, s.drawn, s.returned = s.line[:0], 0, pen{}, false
}
