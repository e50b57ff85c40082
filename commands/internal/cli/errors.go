package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// Usagef makes an error of bad usage of cmd.
func Usagef(cmd *cobra.Command, format string, args ...any) error {
	return core.Errorf(core.KindUsage, cmd.Name(), "", format, args...).
		WithHint("see %q", cmd.CommandPath()+" --help")
}

// NearFlag returns the name of the flag that is most like the unknown flag in err, or "". It ranks names as cobra ranks
// commands.
func NearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if len(name) < 3 {
		return ""
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: max(2, len(name)/3)}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			flags.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if near := flags.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Interrupted reports whether err is only the end of ctx by a signal.
func Interrupted(ctx context.Context, err error) bool {
	_, signaled := errors.AsType[*SignalError](context.Cause(ctx))
	return signaled && core.KindOf(err) == core.KindCanceled
}

// errorReport is the JSON form of an error, written to stderr under --json.
type errorReport struct {
	Error    string    `json:"error"`
	Kind     core.Kind `json:"kind"`
	Op       string    `json:"op,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Hint     string    `json:"hint,omitempty"`
	ExitCode int       `json:"exit_code"`
}

// PrintError prints an error and its hint, or both as JSON.
func PrintError(w io.Writer, err error, code int, asJSON bool) {
	if e, ok := errors.AsType[*ExitError](err); ok && e.Err == nil {
		return
	}
	if asJSON {
		report := errorReport{Error: err.Error(), Kind: core.KindOf(err), Hint: core.HintOf(err), ExitCode: code}
		if e, ok := errors.AsType[*core.Error](err); ok {
			report.Op, report.Subject = e.Op, e.Subject
		}
		_ = output.Line(w, report)
		return
	}
	for _, one := range unjoin(err) {
		text := output.Clean(one.Error())
		if !strings.HasPrefix(text, "sb ") {
			text = "sb: " + text
		}
		_, _ = fmt.Fprintln(w, text)
		if hint := core.HintOf(one); hint != "" {
			_, _ = fmt.Fprintf(w, "hint: %s\n", output.Clean(hint))
		}
	}
}

// unjoin splits joined errors of errors.Join, nested ones, too.
func unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, unjoin(one)...)
	}
	return all
}
