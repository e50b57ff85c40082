package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// YesNo returns a boolean as text.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// StateText returns the state, with the exit code or the reason.
func StateText(box core.Sandbox) string {
	switch {
	case box.ExitCode != nil && box.Reason == core.ReasonCommand:
		return fmt.Sprintf("%s (%d)", box.State, *box.ExitCode)
	case box.Reason != "" && string(box.Reason) != string(box.State):
		return fmt.Sprintf("%s (%s)", box.State, strings.ReplaceAll(string(box.Reason), "_", " "))
	}
	return string(box.State)
}

// ImageText returns the image and GPU of a sandbox.
func ImageText(box core.Sandbox) string {
	if box.GPU.IsZero() {
		return box.Image
	}
	return box.Image + " " + box.GPU.String()
}

// EndsIn returns the remaining lifetime of a sandbox as text.
func EndsIn(box core.Sandbox, now time.Time) string {
	switch {
	case !box.State.Live() || box.State == core.StateStopped:
		return ""
	case box.Expires.IsZero():
		return "never"
	}
	return output.Span(box.Expires.Sub(now))
}

// ExecStatus returns the state of a command as text.
func ExecStatus(e core.Exec) string {
	switch {
	case e.Running():
		return "running"
	case e.Exit == nil:
		return "lost"
	case e.Exit.TimedOut:
		return "timeout"
	case e.Exit.Reason != "":
		return fmt.Sprintf("exit %d (%s)", e.Exit.Code, e.Exit.Reason)
	}
	return "exit " + strconv.Itoa(e.Exit.Code)
}

// ShellText quotes the words of argv as a shell needs them.
func ShellText(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = word
		if word == "" || strings.ContainsAny(word, " \t\n\"'$`\\|&;<>()*?[]#~") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Since returns the age of t, or "" if t is zero.
func (a *App) Since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return output.Age(t, a.Now())
}

// SizeText returns a size, or "" if it is not known.
func SizeText(size core.Bytes) string {
	if size == 0 {
		return ""
	}
	return size.String()
}
