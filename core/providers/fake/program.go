package fake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// standardPrograms are the programs of every sandbox. They support only the options that common scripts use.
func standardPrograms() map[string]Program {
	programs := map[string]Program{
		"sh": runShell, "cat": runCat, "chmod": runChmod, "cut": runCut, "diff": runDiff, "env": runEnv, "head": runHead,
		"id":   runID,
		"kill": runKill, "ln": runLn, "ls": runLs, "mkdir": runMkdir, "readlink": runReadlink, "rm": runRm, "sleep": runSleep,
		"stty": runStty, "touch": runTouch, "tty": runTTY, "wc": runWc, "yes": runYes,
	}
	for _, name := range []string{"[", "echo", "false", "printf", "pwd", "test", "true"} {
		programs[name] = builtin
	}
	return programs
}

// flags splits arguments into letters of options and the rest.
func flags(args []string) (letters string, rest []string) {
	for i, arg := range args {
		if arg == "--" {
			return letters, append(rest, args[i+1:]...)
		}
		if len(arg) > 1 && arg[0] == '-' {
			letters += arg[1:]
			continue
		}
		rest = append(rest, arg)
	}
	return letters, rest
}

func runShell(ctx context.Context, c *Call) int {
	if len(c.Args) > 2 && c.Args[1] == "-c" {
		name, params := "sh", []string{}
		if len(c.Args) > 3 {
			name, params = c.Args[3], c.Args[4:]
		}
		return c.shell(ctx, []byte(c.Args[2]), name, params)
	}
	if len(c.Args) > 1 && !strings.HasPrefix(c.Args[1], "-") {
		script, err := c.proc.box.tree.read(c.path(c.Args[1]))
		if err != nil {
			return c.fail(codeNotFound, c.Args[1], err)
		}
		return c.shell(ctx, script, c.Args[1], c.Args[2:])
	}
	return c.interact(ctx)
}

// interact reads commands from stdin one at a time, so that they can read from it, too.
func (c *Call) interact(ctx context.Context) int {
	runner, err := c.runner(nil)
	if err != nil {
		return c.fail(2, "", err)
	}
	tty := c.proc.spec.TTY
	c.proc.mu.Lock()
	c.proc.interactive = tty
	c.proc.mu.Unlock()
	prompt := func() {
		if tty {
			_, _ = io.WriteString(c.Stdout, "$ ")
		}
	}
	prompt()
	last := 0
	for statements, err := range syntax.NewParser().InteractiveSeq(c.Stdin) {
		if err != nil {
			if ctx.Err() == nil {
				last = c.fail(2, "", err)
			}
			break
		}
		for _, statement := range statements {
			last = status(runner.Run(ctx, statement))
			if runner.Exited() {
				return last
			}
		}
		prompt()
	}
	return last
}

// inputs opens the named files, or stdin when there are none.
func (c *Call) inputs(names []string, each func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		r := c.Stdin
		if name != "-" {
			f, err := c.proc.open(c.path(name), os.O_RDONLY)
			if err != nil {
				code = c.fail(1, name, err)
				continue
			}
			r = f
		}
		if err := each(name, r); err != nil {
			return c.broken(err)
		}
	}
	return code
}

// broken returns the exit code of a program that cannot write.
func (c *Call) broken(err error) int {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.Canceled) {
		return codeSignal + sigPipe
	}
	return c.fail(1, "write error", err)
}

func runCat(ctx context.Context, c *Call) int {
	_, names := flags(c.Args[1:])
	return c.inputs(names, func(_ string, r io.Reader) error {
		_, err := copyUntil(ctx, c.Stdout, r)
		return err
	})
}

// copyUntil copies until the end of r or of ctx.
func copyUntil(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	var total int64
	buffer := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func runHead(ctx context.Context, c *Call) int {
	limit, names := int64(10), c.Args[1:]
	lines := true
	if len(names) > 1 && (names[0] == "-c" || names[0] == "-n") {
		n, err := strconv.ParseInt(names[1], 10, 64)
		if err != nil {
			return c.fail(1, names[1], syscall.EINVAL)
		}
		limit, lines, names = n, names[0] == "-n", names[2:]
	}
	return c.inputs(names, func(_ string, r io.Reader) error {
		if !lines {
			_, err := copyUntil(ctx, c.Stdout, io.LimitReader(r, limit))
			return err
		}
		text := bufio.NewReader(r)
		for range limit {
			line, err := text.ReadBytes('\n')
			if _, err := c.Stdout.Write(line); err != nil {
				return err
			}
			if err != nil {
				return nil
			}
		}
		return nil
	})
}

func runYes(ctx context.Context, c *Call) int {
	line := "y\n"
	if len(c.Args) > 1 {
		line = strings.Join(c.Args[1:], " ") + "\n"
	}
	block := []byte(strings.Repeat(line, 1+32<<10/len(line)))
	for ctx.Err() == nil {
		if _, err := c.Stdout.Write(block); err != nil {
			return c.broken(err)
		}
	}
	return 1
}

func runSleep(ctx context.Context, c *Call) int {
	var total time.Duration
	for _, arg := range c.Args[1:] {
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(arg, "s"), 64)
		if err != nil || seconds < 0 {
			return c.fail(1, arg, syscall.EINVAL)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	if sleep(ctx, total) != nil {
		return 1
	}
	return 0
}

func runKill(_ context.Context, c *Call) int {
	number, targets := sigTerm, c.Args[1:]
	if len(targets) > 0 && strings.HasPrefix(targets[0], "-") {
		number, targets = signalNumber(strings.TrimPrefix(targets[0], "-")), targets[1:]
	}
	for _, target := range targets {
		// A shell sees only one process: itself.
		if target != strconv.Itoa(os.Getpid()) || number == 0 {
			return c.fail(1, target, syscall.ESRCH)
		}
		_ = c.proc.signal(number)
	}
	return 0
}

func runID(_ context.Context, c *Call) int {
	letters, _ := flags(c.Args[1:])
	format := "uid=%[1]d gid=%[1]d\n"
	if strings.ContainsAny(letters, "ug") {
		format = "%d\n"
	}
	_, _ = fmt.Fprintf(c.Stdout, format, c.proc.uid)
	return 0
}

func runEnv(_ context.Context, c *Call) int {
	for name, value := range c.env.Each {
		_, _ = fmt.Fprintf(c.Stdout, "%s=%s\n", name, value.String())
	}
	return 0
}

func runTTY(_ context.Context, c *Call) int {
	if !c.proc.spec.TTY {
		_, _ = io.WriteString(c.Stdout, "not a tty\n")
		return 1
	}
	_, _ = io.WriteString(c.Stdout, "/dev/pts/0\n")
	return 0
}

func runStty(_ context.Context, c *Call) int {
	if !c.proc.spec.TTY {
		return c.fail(1, "standard input", syscall.ENOTTY)
	}
	size := c.proc.terminalSize()
	_, _ = fmt.Fprintf(c.Stdout, "%d %d\n", size.Rows, size.Cols)
	return 0
}

// each calls do for every path and reports failures.
func (c *Call) each(names []string, do func(name string) error) int {
	code := 0
	for _, name := range names {
		if err := do(c.path(name)); err != nil {
			code = c.fail(1, name, err)
		}
	}
	return code
}

func runMkdir(_ context.Context, c *Call) int {
	letters, names := flags(c.Args[1:])
	return c.each(names, func(name string) error {
		return c.proc.box.tree.mkdir(name, strings.Contains(letters, "p"), c.proc.uid)
	})
}

func runTouch(_ context.Context, c *Call) int {
	_, names := flags(c.Args[1:])
	return c.each(names, func(name string) error {
		if _, err := c.proc.box.tree.appendTo(name, nil, 0, c.proc.uid); err != nil {
			return err
		}
		return c.proc.box.tree.touch(name, c.proc.box.provider.opts.Now())
	})
}

func runRm(_ context.Context, c *Call) int {
	letters, names := flags(c.Args[1:])
	return c.each(names, func(name string) error {
		err := c.proc.box.tree.remove(name, strings.ContainsAny(letters, "rR"))
		if errors.Is(err, fs.ErrNotExist) && strings.Contains(letters, "f") {
			return nil
		}
		return err
	})
}

func runChmod(_ context.Context, c *Call) int {
	if len(c.Args) < 2 {
		return c.fail(1, "", syscall.EINVAL)
	}
	mode, err := strconv.ParseUint(c.Args[1], 8, 12)
	if err != nil {
		return c.fail(1, c.Args[1], syscall.EINVAL)
	}
	//nolint:gosec // it has twelve bits
	return c.each(c.Args[2:], func(name string) error { return c.proc.box.tree.chmod(name, fs.FileMode(mode)) })
}

func runLn(_ context.Context, c *Call) int {
	letters, names := flags(c.Args[1:])
	if len(names) != 2 || !strings.Contains(letters, "s") {
		return c.fail(1, "", syscall.EINVAL)
	}
	return c.each(names[1:], func(name string) error { return c.proc.box.tree.symlink(names[0], name, c.proc.uid) })
}

func runReadlink(_ context.Context, c *Call) int {
	return c.each(c.Args[1:], func(name string) error {
		n, err := c.proc.box.tree.stat(name, false)
		if err == nil && n.link == "" {
			err = syscall.EINVAL
		}
		if err == nil {
			_, err = io.WriteString(c.Stdout, n.link+"\n")
		}
		return err
	})
}

func runLs(_ context.Context, c *Call) int {
	letters, names := flags(c.Args[1:])
	if len(names) == 0 {
		names = []string{"."}
	}
	show := func(shown, name string) error {
		n, err := c.proc.box.tree.stat(name, false)
		if err != nil {
			return err
		}
		line := shown + "\n"
		if strings.Contains(letters, "l") {
			mode := n.mode.String()
			mode = mode[len(mode)-9:]
			kind := "-"
			switch {
			case n.children != nil:
				kind = "d"
			case n.link != "":
				kind, line = "l", shown+" -> "+n.link+"\n"
			}
			line = fmt.Sprintf(
				"%s%s 1 %d %d %d %s %s", kind, mode, n.uid, n.gid, n.size(), n.modTime.Format("Jan _2 15:04"), line,
			)
		}
		_, err = io.WriteString(c.Stdout, line)
		return err
	}
	code := 0
	for _, shown := range names {
		name := c.path(shown)
		children, err := c.proc.box.tree.list(name)
		if errors.Is(err, syscall.ENOTDIR) || strings.Contains(letters, "d") {
			err = show(shown, name)
			children = nil
		}
		if err != nil {
			code = c.fail(2, "cannot access '"+shown+"'", err)
		}
		for _, child := range children {
			if !strings.HasPrefix(child, ".") || strings.ContainsAny(letters, "aA") {
				_ = show(child, path.Join(name, child)) // it may be removed in between
			}
		}
	}
	return code
}

func runCut(_ context.Context, c *Call) int {
	if len(c.Args) < 2 || !strings.HasPrefix(c.Args[1], "-c") {
		return c.fail(1, "", syscall.EINVAL)
	}
	from, to, ranged := strings.Cut(c.Args[1][2:], "-")
	low, err := strconv.Atoi(from)
	high := low
	if ranged && err == nil {
		high, err = strconv.Atoi(to)
	}
	if err != nil || low < 1 || high < low {
		return c.fail(1, c.Args[1], syscall.EINVAL)
	}
	return c.inputs(c.Args[2:], func(_ string, r io.Reader) error {
		text := bufio.NewScanner(r)
		for text.Scan() {
			line := text.Bytes()
			line = line[min(low-1, len(line)):min(high, len(line))]
			if _, err := c.Stdout.Write(append(slices.Clone(line), '\n')); err != nil {
				return err
			}
		}
		return text.Err()
	})
}

func runWc(_ context.Context, c *Call) int {
	letters, names := flags(c.Args[1:])
	return c.inputs(names, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		n := len(data)
		if strings.Contains(letters, "l") {
			n = bytes.Count(data, []byte("\n"))
		}
		_, err = fmt.Fprintln(c.Stdout, n)
		return err
	})
}

func runDiff(_ context.Context, c *Call) int {
	_, names := flags(c.Args[1:])
	if len(names) != 2 {
		return c.fail(2, "", syscall.EINVAL)
	}
	var contents [2][]byte
	for i, name := range names {
		data, err := c.proc.box.tree.read(c.path(name))
		if err != nil {
			return c.fail(2, name, err)
		}
		contents[i] = data
	}
	if bytes.Equal(contents[0], contents[1]) {
		return 0
	}
	_, _ = fmt.Fprintf(c.Stdout, "Files %s and %s differ\n", names[0], names[1])
	return 1
}
