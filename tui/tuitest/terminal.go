package tuitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Terminal is a program on a pseudo-terminal with a screen. Its methods are safe for concurrent use.
type Terminal struct {
	cmd *exec.Cmd
	pty *os.File

	mu     sync.Mutex
	screen *vt.Emulator
	raw    []byte // the latest output, escape sequences included
	busy   sync.WaitGroup
	ended  chan struct{}
	err    error
	// answers receives the screen's answers to the program's queries.
	answers chan []byte
}

const (
	// keepRaw is how many bytes of the latest output are kept.
	keepRaw = 1 << 20
	// keepAnswers bounds the queued answers for a program that does not read. Later ones are lost, as on a real terminal
	// with a full buffer.
	keepAnswers = 1024
	// typing bounds the time in which a program reads its input. closing bounds the time in which a killed program ends.
	typing, closing = 30 * time.Second, 30 * time.Second
)

// Start starts cmd on a terminal of cols by rows cells. The caller must call Close.
func Start(cmd *exec.Cmd, cols, rows int) (*Terminal, error) {
	blocking, err := pty.StartWithSize(cmd, winsize(cols, rows))
	if err != nil {
		return nil, err
	}
	f, err := nonBlocking(blocking)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	t := &Terminal{
		cmd: cmd, pty: f, screen: vt.NewEmulator(cols, rows),
		ended: make(chan struct{}), answers: make(chan []byte, keepAnswers),
	}
	t.busy.Go(t.draw)
	t.busy.Go(t.listen)
	t.busy.Go(t.answer)
	t.busy.Go(func() {
		defer close(t.ended)
		t.err = cmd.Wait()
	})
	return t, nil
}

// nonBlocking replaces a file by one with deadlines that can be closed during a read or write.
func nonBlocking(file *os.File) (*os.File, error) {
	defer func() { _ = file.Close() }()
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

func winsize(cols, rows int) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)} //nolint:gosec // a terminal's size
}

// draw feeds the screen until the program and all its children have closed the terminal.
func (t *Terminal) draw() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := t.pty.Read(buffer)
		t.mu.Lock()
		_, _ = t.screen.Write(buffer[:n]) // it never fails
		t.raw = append(t.raw, buffer[:n]...)
		t.raw = t.raw[max(0, len(t.raw)-keepRaw):]
		t.mu.Unlock()
		if err != nil { // EIO at the end
			return
		}
	}
}

// listen reads the screen's answers until the screen is closed. It must not wait for the program: the screen holds
// the lock while it waits for listen.
func (t *Terminal) listen() {
	defer close(t.answers)
	for {
		buffer := make([]byte, 256)
		n, err := t.screen.Read(buffer)
		if err != nil {
			return
		}
		select {
		case t.answers <- buffer[:n]:
		default:
		}
	}
}

// answer writes the answers to the program until the terminal is closed.
func (t *Terminal) answer() {
	for text := range t.answers {
		_, _ = t.pty.Write(text) // it may have ended
	}
}

// Type sends text, control characters included. It fails when the program does not read it within 30 seconds.
func (t *Terminal) Type(text string) error {
	if err := t.pty.SetWriteDeadline(time.Now().Add(typing)); err != nil {
		return err
	}
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

// Click presses and releases the left button at a cell. The top left cell is 0, 0.
func (t *Terminal) Click(x, y int) error {
	return t.Type(fmt.Sprintf("\x1b[<0;%d;%dM\x1b[<0;%d;%dm", x+1, y+1, x+1, y+1))
}

// Resize changes the terminal's size.
func (t *Terminal) Resize(cols, rows int) error {
	t.mu.Lock()
	t.screen.Resize(cols, rows)
	t.mu.Unlock()
	raw, err := t.pty.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		size := &unix.Winsize{Col: uint16(cols), Row: uint16(rows)} //nolint:gosec // a terminal's size
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size)
	})
	return errors.Join(err, failed)
}

// Text returns the text of the screen, one line per row, without trailing blanks.
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

// Raw returns the latest output, at most keepRaw bytes, with its escape sequences.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// Wait waits until the screen's text matches pattern or, with not, no longer matches it.
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

// End waits until the program has ended and returns its exit code.
func (t *Terminal) End(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
	case <-ctx.Done():
		return 0, fmt.Errorf("%w; the program is still running:\n%s", ctx.Err(), t.Text())
	}
	if exit, ok := errors.AsType[*exec.ExitError](t.err); ok {
		return exit.ExitCode(), nil
	}
	return 0, t.err
}

// PID returns the program's process id.
func (t *Terminal) PID() int { return t.cmd.Process.Pid }

// Close kills the program and all processes of its session, and closes the terminal. It fails if one of them does not
// end.
func (t *Terminal) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := killSession(ctx, t.PID())
	_ = t.cmd.Process.Kill() // where a session's processes cannot be listed
	select {
	case <-t.ended:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("process %d has not ended", t.PID()))
	}
	err = errors.Join(err, t.pty.Close())
	if c, ok := t.screen.InputPipe().(io.Closer); ok {
		_ = c.Close() // a pipe's close does not fail
	}
	over := make(chan struct{})
	go func() { t.busy.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
		err = errors.Join(err, errors.New("the terminal's readers have not ended"))
	}
	return err
}

// killSession kills the processes of a session until there are none. Without /proc it kills none.
func killSession(ctx context.Context, session int) error {
	for {
		alive := sessionProcesses(session)
		if len(alive) == 0 {
			return nil
		}
		for _, pid := range alive {
			if process, err := os.FindProcess(pid); err == nil {
				_ = process.Kill() // it may have ended
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v cannot be killed", alive)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// sessionProcesses lists the processes of a session, except zombies.
func sessionProcesses(session int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The name in parentheses may contain any character. After it: state, parent, group, session; see proc_pid_stat(5).
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && len(fields) > 3 && fields[0] != "Z" && fields[3] == strconv.Itoa(session) {
			pids = append(pids, pid)
		}
	}
	return pids
}
