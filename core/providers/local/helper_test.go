//go:build linux

package local

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// Root inside cannot replace sb-guest. Files at the paths of earlier versions do not block the helper, also after a
// stop.
func TestGuestCannotReplaceHelper(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	const attack = `for path in $(find /dev -name '.sb*' ! -type s) /.sb-guest; do
		for try in "rm -rf $path" "mv $path /stolen" "mv /bin/true $path" "ln -sf /bin/false $path" "cp /bin/false $path" \
			"chmod 777 $path" "umount $path" "mount --bind /bin/false $path" "truncate -s 0 $path"
		do $try 2>/dev/null && echo "$try"; done
		rm -rf $path 2>/dev/null; mkdir $path 2>/dev/null
	done; mv /dev /gone 2>/dev/null && echo moved /dev`
	out := output(t, p, sb.ID, attack)
	for line := range strings.Lines(out) {
		if !strings.Contains(line, " /.sb-guest") {
			t.Errorf("root inside could: %s", line)
		}
	}
	works := func(when string) {
		t.Helper()
		process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"echo", "detached"}, Detach: true})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		within(t, when+" a detached command ends", func() bool {
			for record, err := range p.Logs(t.Context(), sb.ID, core.LogOptions{Exec: process.ID(), Tail: -1}) {
				if err == nil && string(record.Data) == "detached\n" {
					return true
				}
			}
			return false
		})
		_ = process.Close()
		var screen bytes.Buffer
		shell, err := p.Exec(
			t.Context(), sb.ID, core.ExecSpec{Command: []string{"tty"}, TTY: true, Stdin: idle(t), Stdout: &screen},
		)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer func() { _ = shell.Close() }()
		if exit, err := shell.Wait(providertest.Patient(t)); err != nil || exit.Code != 0 ||
			!strings.HasPrefix(screen.String(), "/dev/pts/") {
			t.Errorf("%s, with a terminal: %+v, %v: %s", when, exit, err, screen.String())
		}
	}
	works("at once")
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	works("after a stop")
}
