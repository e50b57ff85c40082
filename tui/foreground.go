package tui

import (
	"bytes"
	"io"
	"runtime"
	"time"
)

// foreground is a tea.ExecCommand that runs a function.
type foreground struct{ run func() error }

// Run implements tea.ExecCommand. It returns when the renderer that was stopped before it has ended.
func (f *foreground) Run() error {
	err := f.run()
	limit := time.Now().Add(rendererLimit)
	for rendererEnds() && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	return err
}

// SetStdin implements tea.ExecCommand. The function has its own streams.
func (*foreground) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (*foreground) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (*foreground) SetStderr(io.Writer) {}

// rendererLimit bounds the wait for the end of a renderer, which takes microseconds.
const rendererLimit = 10 * time.Second

// renderer is the function of Bubble Tea's goroutine that draws.
const renderer = "charm.land/bubbletea/v2.(*Program).startRenderer.func1("

// rendererEnds reports whether a goroutine that draws is about to end.
//
// Bubble Tea 2.1.1 releases the terminal when that goroutine has received its end, and the goroutine stops the ticker
// after that. If the terminal is restored in between, the ticker stops permanently and the screen is never drawn again.
// Bubble Tea has no way to wait for the goroutine, so this looks at the stacks. A goroutine that still draws waits in a
// select.
func rendererEnds() bool {
	for _, state := range rendererStates() {
		if state != "select" {
			return true
		}
	}
	return false
}

// rendererStates returns the state of each goroutine that draws, as in a traceback.
func rendererStates() []string {
	stacks := make([]byte, 256<<10)
	n := runtime.Stack(stacks, true)
	for n == len(stacks) {
		stacks = make([]byte, 2*n)
		n = runtime.Stack(stacks, true)
	}
	var states []string
	for stack := range bytes.SplitSeq(stacks[:n], []byte("\n\n")) {
		if !bytes.Contains(stack, []byte(renderer)) {
			continue
		}
		// The first line is "goroutine 7 [select, 2 minutes]:".
		_, state, _ := bytes.Cut(stack, []byte("["))
		if end := bytes.IndexAny(state, ",]"); end >= 0 {
			states = append(states, string(state[:end]))
		}
	}
	return states
}
