package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// ParseTime reads a time, or how long before now it was; "" is the zero time.
func ParseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	ago, err := core.ParseDuration(text)
	if err != nil {
		return time.Time{}, core.Errorf(core.KindUsage, "parse", text, "%s %s: not a time", flag, text).
			WithHint("write a time such as 2026-01-02T15:04:05Z, or how long ago, such as 10m")
	}
	return now.Add(-time.Duration(ago)), nil
}

// YesNo is the text of a boolean in a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// WarnUnavailable tells which providers did not answer. It is an error when one
// was asked for by name, and otherwise when it could have something to tell.
func (a *App) WarnUnavailable(list []core.ProviderFailure, requested bool) error {
	if requested {
		return Failures(list)
	}
	for _, f := range list {
		_, _ = fmt.Fprintf(a.Streams.Err, "warning: %s: %s\n", f.Provider, output.Clean(f.Error))
	}
	return nil
}

// StateText is the state with what a person needs to know about it.
func StateText(box core.Sandbox) string {
	switch {
	case box.ExitCode != nil && box.Reason == core.ReasonCommand:
		return fmt.Sprintf("%s (%d)", box.State, *box.ExitCode)
	case box.Reason != "" && string(box.Reason) != string(box.State):
		return fmt.Sprintf("%s (%s)", box.State, strings.ReplaceAll(string(box.Reason), "_", " "))
	}
	return string(box.State)
}

// ImageText is the text of a sandbox's image in a table.
func ImageText(box core.Sandbox) string {
	if box.GPU.IsZero() {
		return box.Image
	}
	return box.Image + " " + box.GPU.String()
}

// EndsIn is the text of the time that a sandbox has left.
func EndsIn(box core.Sandbox, now time.Time) string {
	switch {
	case !box.State.Live() || box.State == core.StateStopped:
		return ""
	case box.Expires.IsZero():
		return "never"
	}
	return output.Span(box.Expires.Sub(now))
}

// ExecStatus is the text of the state of a command in a sandbox.
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

// ShellText writes argv so that a person sees where words begin and end.
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

// Since is the age of something, or "" when it is not known.
func (a *App) Since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return output.Age(t, a.Now())
}

// SizeText is a size, or "" when it is not known.
func SizeText(size core.Bytes) string {
	if size == 0 {
		return ""
	}
	return size.String()
}
