package fake

import (
	"io"

	"github.com/seed-0724f904/sb/core"
)

// discipline is a simple line discipline of a terminal. It echoes the input and sends it to the command line by line.
// Ctrl-C sends a signal, and Ctrl-D at the beginning of a line ends the input.
type discipline struct {
	proc *process
	to   io.WriteCloser
	line []byte
}

const (
	ctrlC = 0x03
	ctrlD = 0x04
)

// Write handles the user's input.
func (d *discipline) Write(typed []byte) (int, error) {
	var echo []byte
	for i, c := range typed {
		switch c {
		case ctrlC:
			if err := d.show(append(echo, "^C\n"...)); err != nil {
				return i, err
			}
			echo, d.line = nil, nil
			_ = d.proc.signal(sigInt)
		case ctrlD:
			if err := d.show(echo); err != nil {
				return i, err
			}
			echo = nil
			if len(d.line) == 0 {
				return i, d.to.Close()
			}
			if err := d.forward(); err != nil {
				return i, err
			}
		case '\r', '\n':
			d.line = append(d.line, '\n')
			// Echo first: the command's output follows its input.
			if err := d.show(append(echo, '\n')); err != nil {
				return i, err
			}
			echo = nil
			if err := d.forward(); err != nil {
				return i, err
			}
		default:
			d.line, echo = append(d.line, c), append(echo, c)
		}
	}
	return len(typed), d.show(echo)
}

// show writes to the screen in one piece.
func (d *discipline) show(echo []byte) error {
	if len(echo) == 0 {
		return nil
	}
	_, err := output{d.proc, core.Stdout}.Write(echo)
	return err
}

func (d *discipline) forward() error {
	_, err := d.to.Write(d.line)
	d.line = nil
	return err
}
