package fake

import (
	"bytes"
	"io"

	"github.com/seed-0724f904/sb/core"
)

// discipline is a terminal's line discipline, as much of it as a person notices: what is
// typed is echoed, Ctrl-C is a signal, and Ctrl-D at the beginning of a line is the end.
type discipline struct {
	proc *process
	to   io.WriteCloser
	mid  bool // of a line
}

const (
	ctrlC = 0x03
	ctrlD = 0x04
)

// Write takes what was typed.
func (d *discipline) Write(typed []byte) (int, error) {
	for i, c := range typed {
		switch {
		case c == ctrlC:
			_, _ = output{d.proc, core.Stdout}.Write([]byte("^C\n"))
			_ = d.proc.signal(sigInt)
			d.mid = false
			continue
		case c == ctrlD && !d.mid:
			return i, d.to.Close()
		case c == ctrlD:
			continue
		case c == '\r':
			c = '\n'
		}
		d.mid = c != '\n'
		// Echo first: the answer comes after the question.
		if _, err := (output{d.proc, core.Stdout}).Write([]byte{c}); err != nil {
			return i, err
		}
		if _, err := d.to.Write(bytes.Clone([]byte{c})); err != nil {
			return i, err
		}
	}
	return len(typed), nil
}
