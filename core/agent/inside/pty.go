//go:build linux

package inside

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
)

const (
	exitFailed        = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128
)

const (
	// drainQuiet is how long a terminal that a background process still holds must be
	// silent, after the command's end, to count as read out.
	drainQuiet = 20 * time.Millisecond
	// drainMax bounds this output, because the process may never pause.
	drainMax = 1 << 20

	relayBuffer = 64 << 10
)

// runPTY runs a command on a new terminal and returns its exit code.
func runPTY(args []string, stdin, stdout, stderr *os.File) int {
	var report guest.Report
	defer func() { send(stderr, report) }()
	fail := func(code int, subject string, err error) int {
		report.Fail(subject, err)
		return code
	}

	size, command, err := guest.ParsePTYArgs(args)
	if err != nil {
		return fail(exitFailed, "", err)
	}
	// If the reader of the terminal is gone, output hangs the terminal up in order; a signal here would not.
	signal.Ignore(unix.SIGPIPE)
	master, slave, err := openPTY(size)
	if err != nil {
		return fail(exitFailed, "terminal", err)
	}
	t := &terminal{master: master}
	defer func() { _ = master.Close() }()

	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = program.DefaultPath
	}
	file, err := program.Find(command[0], path, "")
	var process *os.Process
	if err == nil {
		process, err = os.StartProcess(file, command, &os.ProcAttr{ //nolint:gosec // running the given command is its purpose
			Env:   os.Environ(),
			Files: []*os.File{slave, slave, slave},
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
		})
	}
	_ = slave.Close()
	if err != nil {
		if guest.KindOf(err) == core.KindNotFound {
			return fail(exitNotFound, command[0], err)
		}
		return fail(exitNotExecutable, command[0], err)
	}
	t.pid = process.Pid

	// The next three end with the process. Nothing can interrupt a read of a pipe that others hold, so no code waits for
	// them after the command.
	go t.input(stdin)
	go t.control(os.NewFile(guest.ControlFD, "control"))
	go t.forwardSignals()
	drained := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(drained)
		t.output(stdout, over)
	}()

	state, err := process.Wait()
	close(over)
	_ = master.SetReadDeadline(time.Now())
	<-drained
	if err != nil {
		return fail(exitFailed, command[0], err)
	}
	exit := exitOf(state)
	report.Exit = &exit
	return exit.Code
}

func exitOf(state *os.ProcessState) guest.Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		n := int(status.Signal())
		return guest.Exit{Code: exitSignal + n, Signal: n}
	}
	return guest.Exit{Code: state.ExitCode()}
}

// openPTY makes a terminal of size. Its master can be read with deadlines.
func openPTY(size core.TerminalSize) (master, slave *os.File, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		fd, err = unix.Open("/dev/pts/ptmx", flags|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("number of the terminal: %w", err)
	}
	if err := resize(fd, size); err != nil {
		return nil, nil, err
	}
	name := "/dev/pts/" + strconv.Itoa(number)
	slaveFD, err := unix.Open(name, flags, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	return master, os.NewFile(uintptr(slaveFD), name), nil
}

func resize(fd int, size core.TerminalSize) error {
	if size.Rows == 0 || size.Cols == 0 {
		return nil
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols}); err != nil {
		return fmt.Errorf("size of the terminal: %w", err)
	}
	return nil
}

// terminal is the outer side of a pty with a session on it.
type terminal struct {
	master *os.File
	pid    int // the session's leader
}

// input relays the user's input. The end of r becomes the terminal's end-of-file character if the program reads lines.
// A program in raw mode has no end of file.
func (t *terminal) input(r io.Reader) {
	buf := make([]byte, relayBuffer)
	last := byte('\n')
	for {
		n, err := r.Read(buf)
		if n > 0 {
			last = buf[n-1] //nolint:gosec // the length was checked
			if _, werr := t.master.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	var termios *unix.Termios
	t.ioctl(func(fd int) error {
		var err error
		termios, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if termios == nil || termios.Lflag&unix.ICANON == 0 {
		return
	}
	end := []byte{termios.Cc[unix.VEOF]}
	if last != '\n' && last != '\r' {
		// The first one only completes the line that was begun.
		end = append(end, end[0])
	}
	_, _ = t.master.Write(end)
}

// output relays the terminal's output, until the session is over and the terminal is drained.
func (t *terminal) output(w io.Writer, over <-chan struct{}) {
	buf := make([]byte, relayBuffer)
	drained, broken, quiet := 0, false, false
	for drained <= drainMax {
		n, err := t.master.Read(buf)
		if n > 0 && !broken {
			if _, werr := w.Write(buf[:n]); werr != nil {
				// The reader is gone: hang up, as when a terminal's window is closed.
				broken = true
				t.signal(unix.SIGHUP)
				t.signal(unix.SIGCONT)
			}
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if (late && quiet) || (err != nil && !late) {
			// Other errors are EIO: no process has the terminal open.
			return
		}
		select {
		case <-over:
			// A deadline set before the session's end proves nothing; only one set here means silence.
			quiet = true
			drained += n
			_ = t.master.SetReadDeadline(time.Now().Add(drainQuiet))
		default:
		}
	}
}

// control obeys the messages from outside until r ends.
func (t *terminal) control(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		message, err := guest.ParseControl(lines.Text())
		switch {
		case err != nil:
			continue
		case message.Signal != 0:
			t.signal(syscall.Signal(message.Signal))
		default:
			t.ioctl(func(fd int) error { return resize(fd, message.Size) })
			// Linux does this automatically; gVisor's terminals do not.
			if group := t.foreground(); group > 0 {
				_ = unix.Kill(-group, unix.SIGWINCH)
			}
		}
	}
}

// forwardSignals passes the signals of this process on.
func (t *terminal) forwardSignals() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	for s := range signals {
		if number, ok := s.(syscall.Signal); ok {
			t.signal(number)
		}
	}
}

func (t *terminal) signal(number syscall.Signal) {
	_ = unix.Kill(-t.pid, number)
	if group := t.foreground(); group > 0 && group != t.pid {
		_ = unix.Kill(-group, number)
	}
}

// foreground is the terminal's foreground process group, or 0.
func (t *terminal) foreground() int {
	group := 0
	t.ioctl(func(fd int) error {
		var err error
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

func (t *terminal) ioctl(do func(fd int) error) {
	conn, err := t.master.SyscallConn()
	if err == nil {
		_ = conn.Control(func(fd uintptr) { _ = do(int(fd)) })
	}
}
