package reply

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultBudget bounds the characters of output in one reply, unless a call requests another bound.
	DefaultBudget = 8000
	// MaxBudget is the largest bound.
	MaxBudget = 100_000
)

// BudgetOf clamps a requested budget; 0 or less means DefaultBudget.
func BudgetOf(requested int) int {
	if requested <= 0 {
		return DefaultBudget
	}
	return min(max(requested, 200), MaxBudget)
}

// Clipped is a piece of output that fits a budget.
type Clipped struct {
	Text string
	// Cut reports missing bytes. Binary reports that Text is a note instead of the bytes.
	Cut, Binary bool
}

// Clip renders a stream of total bytes in at most budget characters: its beginning head, its end, and a line between
// them. The line names the number of missing bytes and the source of the whole. If the stream is not complete, a
// character may be cut at either end. Another line counts replaced bytes; see Legible.
// Escape sequences of terminals are removed.
func Clip(head, end []byte, total int64, budget int, complete bool, whole string) Clipped {
	if total == 0 {
		return Clipped{}
	}
	if !complete {
		head, end = TrimStart(head), TrimEnd(end)
	}
	if !complete || end != nil {
		head = TrimEnd(head)
	}
	first, last, missing := ends(head, TrimStart(end), total, budget)
	text, replaced, ok := Legible(first)
	rest, more, restOK := Legible(last)
	if !ok || !restOK {
		note := fmt.Sprintf(
			"[%d bytes that are not text, beginning with %x; complete: %s]", total, head[:min(len(head), 16)], whole,
		)
		return Clipped{Text: note, Cut: true, Binary: true}
	}
	text, rest = withoutEscapes(text), withoutEscapes(rest)
	if missing > 0 {
		text += fmt.Sprintf("\n[... %d of %d bytes are left out here; complete: %s ...]\n", missing, total, whole) + rest
	}
	if replaced += more; replaced > 0 {
		text += ReplacedNote(replaced)
	}
	return Clipped{Text: text, Cut: missing > 0}
}

// withoutEscapes removes the terminal sequences for colors, cursor and titles (ECMA-48, 5.4 and 8.3.89). A model pays
// for them and cannot use them. An incomplete sequence stays, so that it hides nothing after it.
func withoutEscapes(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\))`).ReplaceAllString(text, "")
}

// ends returns the parts of a stream that fit in budget characters, and the number of bytes between them. A nil end
// means that head is the whole stream.
func ends(head, end []byte, total int64, budget int) (first, last []byte, missing int64) {
	if end == nil && utf8.RuneCount(head) <= budget {
		return head, nil, 0
	}
	if end == nil {
		end = head
	}
	first, last = FirstRunes(head, budget*3/5), lastRunes(end, budget*2/5)
	if missing = total - int64(len(first)+len(last)); missing <= 0 {
		return head, nil, 0
	}
	return first, last, missing
}

// FirstRunes returns the beginning of data, at most n characters. It ends at a line's end where that loses little.
func FirstRunes(data []byte, n int) []byte {
	size := 0
	for ; n > 0 && size < len(data); n-- {
		_, width := utf8.DecodeRune(data[size:])
		size += width
	}
	if at := bytes.LastIndexByte(data[:size], '\n'); size < len(data) && at > size*3/4 {
		size = at + 1
	}
	return data[:size]
}

// lastRunes returns the end of data, at most n characters. It begins at a line's beginning where that loses little.
func lastRunes(data []byte, n int) []byte {
	at := len(data)
	for ; n > 0 && at > 0; n-- {
		_, width := utf8.DecodeLastRune(data[:at])
		at -= width
	}
	size := len(data) - at
	if line := bytes.IndexByte(data[at:], '\n'); at > 0 && line >= 0 && line < size/4 {
		at += line + 1
	}
	return data[at:]
}

// Share divides a budget between two streams. A stream that needs less than half leaves the rest to the other.
func Share(budget int, stdout, stderr int64) (forStdout, forStderr int) {
	half := int64(budget / 2)
	switch {
	case stderr <= half:
		return budget - int(stderr), int(max(stderr, 1))
	case stdout <= half:
		return int(max(stdout, 1)), budget - int(stdout)
	}
	return budget / 2, budget / 2
}

// OneLine returns the last non-empty line of output, shortened for a progress message.
func OneLine(data []byte) string {
	text := strings.ToValidUTF8(string(data), "")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return string(FirstRunes([]byte(line), 300))
		}
	}
	return ""
}
