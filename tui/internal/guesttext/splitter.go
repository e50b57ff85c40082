package guesttext

import (
	"unicode/utf8"
)

const (
	tabStop = 8
	// maxLine is how long a line may be in bytes; the rest is the next line.
	maxLine = 16 << 10
)

// Splitter cuts a stream of output into safe lines. Each line sets its own colours, from
// those that were in force at its beginning, and ends with the default ones. The zero
// value is ready for use.
type Splitter struct {
	held     []byte // an escape sequence or character that is not whole yet
	line     []byte
	column   int // about: combining and wide characters count as one
	pen      pen
	drawn    pen  // what the line has set
	returned bool // a carriage return came last
	emoji    simplifier
}

// Write takes output and hands over the lines that are whole now, without line feeds.
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

// Partial is the line that has not ended yet, or "".
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

// special handles what is not printable ASCII at the beginning of data and returns how
// many bytes that was; 0 asks for more.
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
		if n > 2 && data[1] == '[' && data[n-1] == 'm' && colours(data[2:n-1]) {
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

// colours says whether params are those of a plain SGR sequence: other sequences that end in
// "m" change how the keyboard works.
func colours(params []byte) bool {
	for _, c := range params {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}

// text adds to the line. After a carriage return it begins the line anew, as progress bars do.
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
