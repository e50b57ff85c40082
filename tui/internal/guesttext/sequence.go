package guesttext

import "bytes"

const (
	esc  = 0x1b
	bell = 0x07
	// maxSequence is how long an escape sequence may be. A longer one, or one that never ends,
	// hides no more than that of what follows.
	maxSequence = 4 << 10
)

// sequence returns how many bytes the escape sequence at the beginning of data has, and
// whether it is whole. A sequence that is broken off by what cannot be part of it ends before that;
// one that is too long is its first byte only.
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

// controlString ends at BEL or ESC \. A line feed ends it too: no terminal program needs
// one there, and lines that follow must not vanish.
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
