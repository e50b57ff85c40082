package iostreams

import (
	"bytes"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"github.com/seed-0724f904/sb/core"
)

// Streams are a program's stdin, stdout and stderr. Stdout is for data, stderr for messages.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	inTTY, outTTY, errTTY bool
	inData                bool
	color                 bool
	size                  func() (core.TerminalSize, bool)
	makeRaw               func() (restore func() error, err error)
	keep                  func() (restore func() error, err error)
}

// New describes three open files. lookup reads the environment, as os.LookupEnv does.
func New(in, out, err *os.File, lookup func(string) (string, bool)) *Streams {
	s := &Streams{
		In: in, Out: out, Err: err,
		inTTY:  isTerminal(in),
		outTTY: isTerminal(out),
		errTTY: isTerminal(err),
		inData: carriesData(in),
	}
	s.color = s.outTTY && colorWanted(lookup)
	s.size = func() (core.TerminalSize, bool) {
		for _, f := range []*os.File{out, in, err} {
			if cols, rows, sizeErr := term.GetSize(descriptor(f)); sizeErr == nil && cols > 0 {
				return core.TerminalSize{Rows: clamp(rows), Cols: clamp(cols)}, true
			}
		}
		return core.TerminalSize{}, false
	}
	s.makeRaw = func() (func() error, error) {
		state, rawErr := term.MakeRaw(descriptor(in))
		if rawErr != nil {
			return nil, rawErr
		}
		return func() error { return term.Restore(descriptor(in), state) }, nil
	}
	s.keep = func() (func() error, error) {
		state, stateErr := term.GetState(descriptor(in))
		if stateErr != nil {
			return nil, stateErr
		}
		return func() error { return term.Restore(descriptor(in), state) }, nil
	}
	return s
}

func descriptor(f *os.File) int { return int(f.Fd()) }

func clamp(n int) uint16 { return uint16(min(max(n, 0), 1<<16-1)) }

func isTerminal(f *os.File) bool { return term.IsTerminal(descriptor(f)) }

// carriesData reports whether f carries input for a program: it is a pipe, a file or a socket. A terminal and /dev/null
// carry none.
func carriesData(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	mode := info.Mode()
	return mode.IsRegular() || mode&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}

func colorWanted(lookup func(string) (string, bool)) bool {
	if v, _ := lookup("NO_COLOR"); v != "" {
		return false
	}
	v, _ := lookup("TERM")
	return v != "dumb"
}

// InTTY reports whether stdin is a terminal.
func (s *Streams) InTTY() bool { return s.inTTY }

// OutTTY reports whether stdout is a terminal.
func (s *Streams) OutTTY() bool { return s.outTTY }

// ErrTTY reports whether stderr is a terminal.
func (s *Streams) ErrTTY() bool { return s.errTTY }

// InData reports whether stdin is a pipe, a file or a socket. Commands forward these without a flag.
func (s *Streams) InData() bool { return s.inData }

// Color reports whether stdout may be colored.
func (s *Streams) Color() bool { return s.color }

// CanPrompt reports whether the user can answer questions: stdin and stderr are terminals.
func (s *Streams) CanPrompt() bool { return s.inTTY && s.errTTY }

// Width returns the width of stdout in cells, or 0 when it is not a terminal.
func (s *Streams) Width() int {
	if !s.outTTY {
		return 0
	}
	size, ok := s.size()
	if !ok {
		return 80
	}
	return int(size.Cols)
}

// Size returns the terminal's size; false when no stream is one.
func (s *Streams) Size() (core.TerminalSize, bool) { return s.size() }

// MakeRaw puts the terminal on stdin into raw mode. The caller calls restore on every way out.
func (s *Streams) MakeRaw() (restore func() error, err error) { return s.makeRaw() }

// Keep saves the state of the terminal on stdin; restore restores it.
func (s *Streams) Keep() (restore func() error, err error) { return s.keep() }

// Test is a Streams over buffers. Tests can set its terminal state.
type Test struct {
	*Streams
	In       *bytes.Buffer
	Out, Err *bytes.Buffer
	// Raw counts how often the terminal was put into raw mode, less how often it was restored.
	Raw int
}

// NewTest returns streams that are no terminals, with an empty stdin.
func NewTest() *Test {
	t := &Test{In: new(bytes.Buffer), Out: new(bytes.Buffer), Err: new(bytes.Buffer)}
	t.Streams = &Streams{In: t.In, Out: t.Out, Err: t.Err}
	t.size = func() (core.TerminalSize, bool) { return core.TerminalSize{}, false }
	t.makeRaw = func() (func() error, error) {
		t.Raw++
		return func() error { t.Raw--; return nil }, nil
	}
	t.keep = func() (func() error, error) {
		raw := t.Raw
		return func() error { t.Raw = raw; return nil }, nil
	}
	return t
}

// SetTTY makes all three streams look like a terminal of so many columns and 24 rows.
func (t *Test) SetTTY(cols uint16) *Test {
	t.inTTY, t.outTTY, t.errTTY, t.inData = true, true, true, false
	t.size = func() (core.TerminalSize, bool) { return core.TerminalSize{Rows: 24, Cols: cols}, true }
	return t
}

// SetInput makes stdin look like a pipe that holds text.
func (t *Test) SetInput(text string) *Test {
	t.inTTY, t.inData = false, true
	t.In.WriteString(text)
	return t
}

// Type makes stdin hold text as typed at the terminal.
func (t *Test) Type(text string) *Test {
	t.In.WriteString(text)
	return t
}
