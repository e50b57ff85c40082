package tuitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// Terminal is a program on a pseudo-terminal with a screen. Its methods may be called at the
// same time from several goroutines.
type Terminal struct {
	cmd *exec.Cmd
	pty *os.File

	mu     sync.Mutex
	screen *vt.Emulator
	raw    []byte // the last output, for what the screen does not tell
	busy   sync.WaitGroup
	ended  chan struct{}
	err    error
}

// keepRaw is how much of the output is kept as it came.
const keepRaw = 1 << 20

// Start starts cmd on a terminal of so many cells. The caller calls Close.
func Start(cmd *exec.Cmd, cols, rows int) (*Terminal, error) {
	f, err := pty.StartWithSize(cmd, winsize(cols, rows))
	if err != nil {
		return nil, err
	}
	t := &Terminal{cmd: cmd, pty: f, screen: vt.NewEmulator(cols, rows), ended: make(chan struct{})}
	t.busy.Go(t.draw)
	// What the terminal answers to queries of the program.
	t.busy.Go(func() { _, _ = io.Copy(f, t.screen) })
	t.busy.Go(func() {
		defer close(t.ended)
		t.err = cmd.Wait()
	})
	return t, nil
}

func winsize(cols, rows int) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)} //nolint:gosec // a terminal's size
}

// draw feeds the screen until the program and all that it started have closed the terminal.
func (t *Terminal) draw() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := t.pty.Read(buffer)
		t.mu.Lock()
		_, _ = t.screen.Write(buffer[:n]) // it takes everything
		t.raw = append(t.raw, buffer[:n]...)
		t.raw = t.raw[max(0, len(t.raw)-keepRaw):]
		t.mu.Unlock()
		if err != nil { // EIO at the end
			return
		}
	}
}

// Type sends text as it is, control characters included.
func (t *Terminal) Type(text string) error {
	_, err := t.pty.WriteString(text)
	return err
}

// Press presses a key by its name: enter, esc, tab, up, ctrl+x, f, ...
func (t *Terminal) Press(key string) error {
	names := map[string]string{
		"enter": "\r", "esc": "\x1b", "tab": "\t", "space": " ", "backspace": "\x7f",
		"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
		"pgup": "\x1b[5~", "pgdown": "\x1b[6~", "delete": "\x1b[3~", "shift+tab": "\x1b[Z",
	}
	switch letter, control := strings.CutPrefix(key, "ctrl+"); {
	case names[key] != "":
		return t.Type(names[key])
	case control && len(letter) == 1:
		return t.Type(string(letter[0] & 0x1f))
	case len([]rune(key)) == 1:
		return t.Type(key)
	}
	return fmt.Errorf("there is no key %q", key)
}

// Click presses and releases the left button at a cell, counted from 0.
func (t *Terminal) Click(x, y int) error {
	return t.Type(fmt.Sprintf("\x1b[<0;%d;%dM\x1b[<0;%d;%dm", x+1, y+1, x+1, y+1))
}

// Resize changes the terminal's size.
func (t *Terminal) Resize(cols, rows int) error {
	t.mu.Lock()
	t.screen.Resize(cols, rows)
	t.mu.Unlock()
	return pty.Setsize(t.pty, winsize(cols, rows))
}

// Text is what the screen shows, line by line.
func (t *Terminal) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for y := range t.screen.Height() {
		var line strings.Builder
		for x := 0; x < t.screen.Width(); x++ {
			cell := t.screen.CellAt(x, y)
			switch {
			case cell == nil:
				line.WriteByte(' ')
			case cell.Width > 0:
				line.WriteString(cell.Content)
				x += cell.Width - 1
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Raw is the last output as it came.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// Wait waits until the screen's text matches, or does not any more with not.
func (t *Terminal) Wait(ctx context.Context, pattern *regexp.Regexp, not bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text := t.Text()
		if pattern.MatchString(text) != not {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen does not match %q:\n%s", ctx.Err(), pattern, text)
		}
	}
}

// End waits for the program's end and returns its exit code.
func (t *Terminal) End(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
	case <-ctx.Done():
		return 0, fmt.Errorf("%w; the program goes on:\n%s", ctx.Err(), t.Text())
	}
	if exit, ok := errors.AsType[*exec.ExitError](t.err); ok {
		return exit.ExitCode(), nil
	}
	return 0, t.err
}

// PID is the program's process id.
func (t *Terminal) PID() int { return t.cmd.Process.Pid }

// Close ends the program and gives the terminal back.
func (t *Terminal) Close() error {
	_ = t.cmd.Process.Kill() // it may have ended
	<-t.ended
	err := t.pty.Close()
	if c, ok := t.screen.InputPipe().(io.Closer); ok {
		_ = c.Close() // a pipe's close does not fail
	}
	t.busy.Wait()
	return err
}
