package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-0724f904/sb/tui/tuitest"
)

// patience bounds the wait for expected text on the screen.
const patience = 60 * time.Second

type terminalKey struct{}

// terminalCommands let a script use a program on a terminal, as a person does:
//
//	terminal 80x24 sb ui     starts it
//	type TEXT                types text
//	press KEY...             presses keys: enter, esc, ctrl+p, x
//	click COLUMN ROW         clicks, counted from 0
//	[!] screen REGEXP        waits until the screen matches, or no longer matches
//	resize 60x15...          changes the size, every 10 ms
//	signal TERM [DEPTH]      sends a signal to the program, or to its descendant at DEPTH
//	ended CODE               waits for its end
//	[!] drawn REGEXP         waits for that output, escape sequences included, or checks that it is absent
func terminalCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"terminal": startTerminal,
		"type": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(current(ts).Type(strings.Join(args, " ")))
		},
		"press": func(ts *testscript.TestScript, _ bool, args []string) {
			for _, key := range args {
				ts.Check(current(ts).Press(key))
			}
		},
		"click": func(ts *testscript.TestScript, _ bool, args []string) {
			x, err := strconv.Atoi(args[0])
			ts.Check(err)
			y, err := strconv.Atoi(args[1])
			ts.Check(err)
			ts.Check(current(ts).Click(x, y))
		},
		"screen": func(ts *testscript.TestScript, neg bool, args []string) {
			pattern, err := regexp.Compile("(?m)" + args[0])
			ts.Check(err)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			ts.Check(current(ts).Wait(ctx, pattern, neg))
		},
		"resize": func(ts *testscript.TestScript, _ bool, args []string) {
			for _, arg := range args {
				cols, rows := size(ts, arg)
				ts.Check(current(ts).Resize(cols, rows))
				time.Sleep(10 * time.Millisecond) // as often as a hand that drags a window
			}
		},
		"signal": func(ts *testscript.TestScript, _ bool, args []string) {
			signals := map[string]syscall.Signal{
				"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1,
				"USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP,
			}
			number, known := signals[args[0]]
			if !known {
				ts.Fatalf("signal %s is not one of the test's", args[0])
			}
			depth := 0
			if len(args) > 1 {
				var err error
				depth, err = strconv.Atoi(args[1])
				ts.Check(err)
			}
			ts.Check(syscall.Kill(descendant(ts, current(ts).PID(), depth), number))
		},
		"ended": func(ts *testscript.TestScript, _ bool, args []string) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			code, err := current(ts).End(ctx)
			ts.Check(err)
			if strconv.Itoa(code) != args[0] {
				ts.Fatalf("it ended with %d\n%s", code, current(ts).Text())
			}
		},
		"drawn": func(ts *testscript.TestScript, neg bool, args []string) {
			pattern, term := regexp.MustCompile(args[0]), current(ts)
			for deadline := time.Now().Add(patience); !neg && !pattern.MatchString(term.Raw()) && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond) // the terminal may lag behind the program's end
			}
			if pattern.MatchString(term.Raw()) == neg {
				ts.Fatalf("%q: %q", args[0], term.Raw())
			}
		},
	}
}

// descendant is the newest child of the newest child of a process, so many generations below.
func descendant(ts *testscript.TestScript, pid, depth int) int {
	for range depth {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		ts.Check(err)
		newest := 0
		for _, thread := range threads {
			children, err := os.ReadFile(thread)
			ts.Check(err)
			for word := range strings.FieldsSeq(string(children)) {
				child, err := strconv.Atoi(word)
				ts.Check(err)
				newest = max(newest, child)
			}
		}
		if newest == 0 {
			ts.Fatalf("process %d has no child", pid)
		}
		pid = newest
	}
	return pid
}

func startTerminal(ts *testscript.TestScript, _ bool, args []string) {
	cols, rows := size(ts, args[0])
	cmd := exec.CommandContext(context.Background(), lookPath(ts, args[1]), args[2:]...)
	cmd.Args[0] = args[1]
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(ts.Value(terminalKey{}).(*terminalHolder).env(), "TERM=xterm-256color", "NO_COLOR="+
		ts.Getenv("NO_COLOR"))
	term, err := tuitest.Start(cmd, cols, rows)
	ts.Check(err)
	ts.Value(terminalKey{}).(*terminalHolder).current = term
	ts.Defer(func() { ts.Check(term.Close()) })
}

// terminalHolder is a script's terminal.
type terminalHolder struct {
	env     func() []string
	current *tuitest.Terminal
}

func current(ts *testscript.TestScript) *tuitest.Terminal {
	term := ts.Value(terminalKey{}).(*terminalHolder).current
	if term == nil {
		ts.Fatalf("there is no terminal; begin with: terminal 80x24 sb ui")
	}
	return term
}

// lookPath finds a program in the script's PATH.
func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	ts.Fatalf("there is no program %s", name)
	return ""
}

func size(ts *testscript.TestScript, text string) (cols, rows int) {
	w, h, _ := strings.Cut(text, "x")
	cols, err := strconv.Atoi(w)
	ts.Check(err)
	rows, err = strconv.Atoi(h)
	ts.Check(err)
	return cols, rows
}
