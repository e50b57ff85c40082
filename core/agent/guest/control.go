package guest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Control is one message to a running "sb-guest pty": a new size, or a signal if Signal is not 0. On the wire each is a
// line of text.
type Control struct {
	Size   core.TerminalSize
	Signal int
}

// Resize returns the bytes that set the terminal's size. The foreground process group gets SIGWINCH.
func Resize(size core.TerminalSize) []byte {
	return fmt.Appendf(nil, "size %d %d\n", size.Rows, size.Cols)
}

// Signal returns the bytes that send a signal to the command's process group, and to the foreground group if that is
// different.
func Signal(number int) []byte { return fmt.Appendf(nil, "signal %d\n", number) }

// ParseControl reads one line, without its newline.
func ParseControl(line string) (Control, error) {
	fields := strings.Fields(line)
	switch {
	case len(fields) == 3 && fields[0] == "size":
		size, err := parseSize(fields[1], fields[2])
		return Control{Size: size}, err
	case len(fields) == 2 && fields[0] == "signal":
		n, err := strconv.Atoi(fields[1])
		if err != nil || n < 1 || n > 64 {
			return Control{}, core.Errorf(core.KindUsage, ModePTY, fields[1], "not a signal")
		}
		return Control{Signal: n}, nil
	}
	return Control{}, core.Errorf(core.KindUsage, ModePTY, "", "unknown control message")
}
