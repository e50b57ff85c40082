package code

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// text is a writer that emits output as events. Bytes that are not UTF-8 become U+FFFD.
type text struct {
	emit func(Event)
	kind EventType
	held []byte // the beginning of a character
}

func (t *text) Write(p []byte) (int, error) {
	all := slices.Concat(t.held, p)
	whole := len(all)
	for i := 1; i <= min(utf8.UTFMax-1, whole); i++ {
		if at := len(all) - i; utf8.RuneStart(all[at]) {
			if !utf8.FullRune(all[at:]) {
				whole = at
			}
			break
		}
	}
	t.held = bytes.Clone(all[whole:])
	if whole > 0 {
		t.emit(Event{Type: t.kind, Text: strings.ToValidUTF8(string(all[:whole]), "\ufffd")})
	}
	return len(p), nil
}

// mark begins a line that is an event.
const mark = 0x1e

// marked is a writer for output with lines that begin with mark. It passes those on as events, and the rest as text.
type marked struct {
	events  *lines
	text    text
	inEvent bool
}

func (m *marked) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if !m.inEvent {
			output, _, found := bytes.Cut(rest, []byte{mark})
			if len(output) > 0 {
				_, _ = m.text.Write(output)
			}
			if !found {
				return len(p), nil
			}
			m.inEvent, rest = true, rest[len(output)+1:]
			continue
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		} else {
			m.inEvent = false
		}
		if _, err := m.events.Write(rest[:end]); err != nil {
			return 0, err
		}
		rest = rest[end:]
	}
	return len(p), nil
}
