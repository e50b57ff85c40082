package guesttext

import "bytes"

const (
	esc  = 0x1b
	bell = 0x07
	// maxSequence is the longest escape sequence in bytes. A longer or unterminated one is not treated as a sequence,
	// so that it cannot hide the text after it.
	maxSequence = 4 << 10
)

// sequence returns the length of the escape sequence at the start of data, and whether it is complete. A byte that
// cannot be part of the sequence ends it. For a sequence over maxSequence it returns a length of one byte.
func sequence(data []byte) (n int, whole bool) {
	if len(data) < 2 {
		return len(data), false
	}
	switch data[1] {
	case '[':
		return csi(data)
	case ']', 'P', 'X', '^', '_':
		return controlString(data)
	}
	i := 1
	for i < len(data) && data[i] >= 0x20 && data[i] <= 0x2f {
		i++
	}
	switch {
	case i > maxSequence:
		return 1, true
	case i == len(data):
		return i, false
	case data[i] >= 0x30 && data[i] <= 0x7e:
		return i + 1, true
	}
	return i, true
}

func csi(data []byte) (n int, whole bool) {
	for i := 2; i < len(data); i++ {
		switch c := data[i]; {
		case i > maxSequence:
			return 1, true
		case c >= 0x40 && c <= 0x7e:
			return i + 1, true
		case c < 0x20 || c > 0x3f:
			return i, true
		}
	}
	return len(data), false
}

// controlString is sequence for OSC, DCS and the like. They end at BEL or ESC \, and here also at a line feed, so
// that the lines after an unterminated one stay visible.
func controlString(data []byte) (n int, whole bool) {
	end := bytes.IndexAny(data[2:min(len(data), maxSequence)], "\x07\x1b\n")
	switch {
	case end < 0 && len(data) < maxSequence:
		return len(data), false
	case end < 0:
		return 1, true
	}
	at := 2 + end
	switch {
	case data[at] == bell:
		return at + 1, true
	case data[at] == '\n':
		return at, true
	case at+1 == len(data):
		return len(data), false
	case data[at+1] == '\\':
		return at + 2, true
	}
	return at, true
}
