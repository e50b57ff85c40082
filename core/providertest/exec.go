package providertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

func (s *suite) exec(t *testing.T) {
	p := s.provider(t)
	sb := launch(t, p, func(spec *core.Spec) { spec.Env = map[string]string{"A": "sandbox"}; spec.Workdir = "/tmp" })
	if r := sh(t, p, sb.ID, "echo plain > /tmp/plain"); r.exit.Code != 0 {
		t.Fatal(r)
	}
	for _, test := range []struct {
		name string
		spec core.ExecSpec
		want result
	}{
		{"success", core.ExecSpec{Command: []string{"true"}}, result{}},
		{"code", core.ExecSpec{Command: []string{"sh", "-c", "exit 7"}}, result{exit: core.Exit{Code: 7}}},
		{"signal", core.ExecSpec{Command: []string{"sh", "-c", "kill -9 $$"}}, result{exit: core.Exit{Code: 137, Signal: 9}}},
		{"missing", core.ExecSpec{Command: []string{"no-such-program"}}, result{exit: core.Exit{Code: 127}}},
		{"not executable", core.ExecSpec{Command: []string{"/tmp/plain"}}, result{exit: core.Exit{Code: 126}}},
		{
			"arguments untouched",
			core.ExecSpec{Command: []string{"printf", "%s|", "a b", "", "$x", "*", "'\""}},
			result{out: "a b||$x|*|'\"|"},
		},
		{"workdir", core.ExecSpec{Command: []string{"pwd"}}, result{out: "/tmp\n"}},
		{"own workdir", core.ExecSpec{Command: []string{"pwd"}, Workdir: "/usr"}, result{out: "/usr\n"}},
		{
			"environment",
			core.ExecSpec{Command: []string{"sh", "-c", "echo $A $B"}, Env: map[string]string{"B": "exec"}},
			result{out: "sandbox exec\n"},
		},
		{
			"no environment of the host",
			core.ExecSpec{Command: []string{"sh", "-c", "echo ${SB_SUITE_SECRET:-unset}"}},
			result{out: "unset\n"},
		},
		{
			"separate streams",
			core.ExecSpec{Command: []string{"sh", "-c", "echo out; echo err >&2"}},
			result{out: "out\n", err: "err\n"},
		},
		{"empty stdin", core.ExecSpec{Command: []string{"cat"}}, result{}},
		{
			"stdin and its end",
			core.ExecSpec{Command: []string{"cat"}, Stdin: strings.NewReader("some\x00bytes\xff")},
			result{out: "some\x00bytes\xff"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, p, sb.ID, test.spec)
			got.exit.Duration, got.exit.Message = 0, ""
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	if p.Capabilities().Can(core.CapUser) {
		if r := run(t, p, sb.ID, core.ExecSpec{Command: []string{"id", "-u"}, User: "1000"}); r.out != "1000\n" {
			t.Errorf("as uid 1000: %+v", r)
		}
	}
	t.Run("timeout", func(t *testing.T) {
		r := run(t, p, sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}, Timeout: 100 * time.Millisecond})
		if !r.exit.TimedOut || r.exit.Code == 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("signalled", func(t *testing.T) {
		r, w := io.Pipe()
		process := begin(
			t, p, sb.ID,
			core.ExecSpec{
				Command: []string{"sh", "-c", "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done"},
				Stdout:  w,
			},
		)
		lines := make(chan string, 8)
		go func() {
			defer close(lines)
			for text := bufio.NewScanner(r); text.Scan(); {
				lines <- text.Text()
			}
		}()
		if line := <-lines; line != "ready" {
			t.Fatalf("wrote %q", line)
		}
		if err := process.Signal(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, process); exit.Code != 3 {
			t.Errorf("ended with %+v", exit)
		}
		_ = w.Close()
		for range lines {
		}
	})
	t.Run("giving up the wait", func(t *testing.T) {
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := process.Wait(ctx); core.KindOf(err) != core.KindCanceled {
			t.Errorf("Wait: %v", err)
		}
		if err := process.Signal(t.Context(), 9); err != nil {
			t.Errorf("the command has not gone on: %v", err)
		}
		if exit := wait(t, process); exit.Code != 137 {
			t.Errorf("%+v", exit)
		}
	})
	t.Run("a signal that ends it", func(t *testing.T) {
		for range 20 {
			process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
			if err := process.Signal(t.Context(), 15); err != nil {
				t.Fatalf("the signal that ended it: %v", err)
			}
			if exit := wait(t, process); exit.Code != 143 {
				t.Fatalf("%+v", exit)
			}
		}
	})
	t.Run("signals do what they do by default", func(t *testing.T) {
		for number, name := range map[int]string{1: "HUP", 10: "USR1", 13: "PIPE", 14: "ALRM"} {
			if r := sh(t, p, sb.ID, "kill -"+name+" $$; echo survived"); r.exit.Code != 128+number {
				t.Errorf("after SIG%s: %+v", name, r)
			}
		}
	})
	// The caller may start to read the output only after it has the command.
	t.Run("output that waits for its reader", func(t *testing.T) {
		for range 20 {
			r, w := io.Pipe()
			process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"echo", "early"}, Stdout: w, Stderr: w})
			line, err := bufio.NewReader(r).ReadString('\n')
			if err != nil || line != "early\n" {
				t.Fatalf("%q, %v", line, err)
			}
			wait(t, process)
		}
	})
	t.Run("a flood from the background", func(t *testing.T) {
		process := begin(
			t, p, sb.ID,
			core.ExecSpec{
				Command: []string{"sh", "-c", "yes & yes >&2 & sleep 0.1; exit 3"}, Stdout: io.Discard, Stderr: io.Discard,
			},
		)
		if exit := wait(t, process); exit.Code != 3 {
			t.Errorf("%+v", exit)
		}
		if r := sh(t, p, sb.ID, "kill -9 $(pidof yes); true"); r.exit.Code != 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("after the end", func(t *testing.T) {
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"true"}})
		first := wait(t, process)
		wantKind(t, process.Signal(t.Context(), 15), core.KindConflict)
		wantKind(t, process.Resize(t.Context(), core.TerminalSize{Rows: 1, Cols: 1}), core.KindConflict)
		if again := wait(t, process); again != first {
			t.Errorf("a second Wait says %+v, the first %+v", again, first)
		}
	})
	t.Run("given up before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		process, err := p.Exec(ctx, sb.ID, core.ExecSpec{Command: []string{"true"}})
		if err == nil {
			_ = process.Close()
		}
		wantKind(t, err, core.KindCanceled)
	})
	t.Run("at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if r := sh(t, p, sb.ID, fmt.Sprintf("echo %d; exit %d", i, i)); r.out != strconv.Itoa(i)+"\n" || r.exit.Code != i {
					t.Errorf("command %d: %+v", i, r)
				}
			})
		}
		wg.Wait()
	})
}

func (s *suite) streams(t *testing.T) {
	p := s.provider(t)
	sb := launch(t, p, nil)
	t.Run("100 MiB", func(t *testing.T) {
		const size = 100 << 20
		digest := sha256.New()
		n := &counter{}
		r := run(
			t, p, sb.ID,
			core.ExecSpec{
				Command: []string{"sh", "-c", "yes 0123456789abcde | head -c 104857600"}, Stdout: io.MultiWriter(digest, n),
			},
		)
		want := sha256.New()
		for range size / 16 {
			want.Write([]byte("0123456789abcde\n"))
		}
		if r.exit.Code != 0 || n.bytes != size || !bytes.Equal(digest.Sum(nil), want.Sum(nil)) {
			t.Errorf("%d bytes came, %+v", n.bytes, r)
		}
	})
	t.Run("pipe handed over", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "head -c 5000000 /dev/zero"}, Stdout: w})
		_ = w.Close()
		n, err := io.Copy(io.Discard, r)
		_ = r.Close()
		if exit := wait(t, process); err != nil || n != 5000000 || exit.Code != 0 {
			t.Errorf("%d bytes came, %v, %+v", n, err, exit)
		}
	})
	t.Run("slow reader", func(t *testing.T) {
		r, w := io.Pipe()
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"head", "-c", "8000000", "/dev/zero"}, Stdout: w})
		total, buffer := 0, make([]byte, 1<<20)
		for total < 8000000 {
			n, err := r.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if exit := wait(t, process); exit.Code != 0 {
			t.Errorf("%+v", exit)
		}
	})
	t.Run("writer that fails", func(t *testing.T) {
		// Lost output is an error whatever the command returns, and the command's write fails.
		for _, test := range []struct {
			script         string
			stdout, stderr io.Writer
		}{
			{script: "echo hello; echo hello >&2", stdout: fullDisk{}},
			{script: "echo hello; echo hello >&2", stderr: fullDisk{}},
			{script: "while echo hello; do :; done", stdout: fullDisk{}},
			{script: "while echo hello >&2; do :; done", stderr: fullDisk{}},
		} {
			process := begin(
				t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", test.script}, Stdout: test.stdout, Stderr: test.stderr},
			)
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			exit, err := process.Wait(ctx)
			cancel()
			if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, core.KindExhausted) {
				t.Errorf("%q ended with %+v, %v", test.script, exit, err)
			}
		}
	})
	t.Run("reader that leaves", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"yes"}, Stdout: w})
		_ = w.Close()
		if _, err := io.ReadFull(r, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		if exit := wait(t, process); exit.Code == 0 {
			t.Errorf("a writer without a reader ended with %+v", exit)
		}
	})
	t.Run("interleaved", func(t *testing.T) {
		const count = 300
		var both, out, err strings.Builder
		for i := range count {
			fmt.Fprintf(&both, "o%d\ne%d\n", i, i)
			fmt.Fprintf(&out, "o%d\n", i)
			fmt.Fprintf(&err, "e%d\n", i)
		}
		loop := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo o$i; echo e$i >&2; i=$((i+1)); done", count)
		if r := sh(t, p, sb.ID, loop); r.out != out.String() || r.err != err.String() {
			t.Errorf("apart: %+v", r)
		}
		if r := sh(t, p, sb.ID, "{ "+loop+"; } 2>&1"); r.out != both.String() || r.err != "" {
			t.Errorf("together: %+v", r)
		}
	})
	t.Run("both ways", func(t *testing.T) {
		want, got := sha256.New(), sha256.New()
		content := io.LimitReader(rand.NewChaCha8([32]byte{}), 20<<20)
		r := run(t, p, sb.ID, core.ExecSpec{Command: []string{"cat"}, Stdin: io.TeeReader(content, want), Stdout: got})
		if r.exit.Code != 0 || !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
			t.Errorf("the received bytes differ from the sent ones: %+v", r)
		}
	})
	t.Run("background process", func(t *testing.T) {
		// A command has ended when its process has, even if another process still holds its output.
		if r := sh(t, p, sb.ID, "sleep 600 & echo started"); r.out != "started\n" || r.exit.Code != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// counter counts bytes.
type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// givenSecrets checks that a provider that lists secrets keeps them out of the output that it stores.
func (s *suite) givenSecrets(t *testing.T, p core.Provider) {
	t.Helper()
	lister, ok := optional[core.SecretLister](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, func(spec *core.Spec) {
		spec.Secrets = []core.Secret{{Name: "LAUNCHED", Value: core.NewSecretValue("launch-value")}}
	})
	r := run(
		t, p, sb.ID,
		core.ExecSpec{
			Command: []string{"sh", "-c", "echo $LAUNCHED $GIVEN"},
			Secrets: []core.Secret{{Name: "GIVEN", Value: core.NewSecretValue("command-value")}},
		},
	)
	if r.out != "launch-value command-value\n" {
		t.Errorf("the command's own caller sees %q", r.out)
	}
	if other, ok := s.provider(t).(core.SecretLister); ok {
		lister = other // as another process, which received no secret
	}
	secrets, err := lister.GivenSecrets(t.Context(), sb.ID)
	if err != nil || len(secrets) == 0 || secrets[0].Name != "LAUNCHED" || secrets[0].Value.Reveal() != "launch-value" {
		t.Errorf("reported: %v, %v", secrets, err)
	}
	logs, ok := p.(core.LogReader)
	if !ok {
		return
	}
	var kept strings.Builder
	for record, err := range logs.Logs(t.Context(), sb.ID, core.LogOptions{Exec: "1", Tail: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		kept.Write(record.Data)
	}
	if kept.String() != "[redacted] [redacted]\n" {
		t.Errorf("the journal has %q", kept.String())
	}
}

func (s *suite) journal(t *testing.T) {
	p := s.provider(t)
	journal, ok := optional[core.Journaler](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, nil)
	secret := core.Secret{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}
	if r := run(
		t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "echo out; exit 4"}, Secrets: []core.Secret{secret}},
	); r.exit.Code != 4 {
		t.Fatal(r)
	}
	process := begin(
		t, p, sb.ID,
		core.ExecSpec{
			Command: []string{"sh", "-c", "echo early; while ! test -e /tmp/go; do sleep 0.05; done; echo late; exit 5"},
			Detach:  true,
		},
	)
	id := process.ID()
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	execs, err := journal.Execs(t.Context(), sb.ID)
	if err != nil || len(execs) != 2 || execs[0].Exit == nil || execs[0].Exit.Code != 4 || execs[0].StdoutBytes != 4 ||
		!execs[1].Running() || execs[1].ID != id {
		t.Fatalf("the journal is %+v, %v", execs, err)
	}
	if strings.Contains(fmt.Sprintf("%+v", execs), "s3cret") {
		t.Error("the journal holds a secret")
	}
	s.givenSecrets(t, p)
	other := s.provider(t)
	attacher, ok := optional[core.Attacher](t, other)
	if !ok {
		return
	}
	var out bytes.Buffer
	attached, err := attacher.Attach(t.Context(), sb.ID, id, core.Streams{Stdout: &out, Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = attached.Close() }()
	if r := sh(t, p, sb.ID, "touch /tmp/go"); r.exit.Code != 0 {
		t.Fatal(r)
	}
	if exit := wait(t, attached); exit.Code != 5 || out.String() != "early\nlate\n" {
		t.Errorf("attached: %q, %+v", out.String(), exit)
	}
	again, err := attacher.Attach(t.Context(), sb.ID, id, core.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, again); exit.Code != 5 {
		t.Errorf("a second time: %+v", exit)
	}
	// Ids are opaque: any text that is not an id of this sandbox is not found.
	for _, unknown := range []string{
		"999", "", "-1", "0", " 1", "../1", "1/", "1\x00", "no id", "0b6f9f0e-6f3a-4d3b-9a53-1c1f5e9a7d11",
		strings.Repeat("9", 300),
	} {
		_, err = attacher.Attach(t.Context(), sb.ID, unknown, core.Streams{})
		wantKind(t, err, core.KindNotFound)
	}
	if logs, ok := p.(core.LogReader); ok {
		s.logs(t, p, logs, sb.ID, id)
	}
}

// logs reads the log of a command that wrote two lines: "early" and, some time later, "late".
func (s *suite) logs(t *testing.T, p core.Provider, logs core.LogReader, sandbox, exec string) {
	t.Helper()
	read := func(opts core.LogOptions) (string, []core.LogRecord) {
		var text strings.Builder
		var records []core.LogRecord
		for record, err := range logs.Logs(t.Context(), sandbox, opts) {
			if err != nil {
				t.Fatal(err)
			}
			text.Write(record.Data)
			records = append(records, record)
		}
		return text.String(), records
	}
	all, records := read(core.LogOptions{Exec: exec, Tail: -1})
	if all != "early\nlate\n" {
		t.Fatalf("the log is %q", all)
	}
	var late time.Time
	for _, record := range slices.Backward(records) {
		if record.Stream != core.Stdout {
			t.Errorf("%q is from %s", record.Data, record.Stream)
		}
		if late = record.Time; strings.HasPrefix(string(record.Data), "late") {
			break
		}
	}
	for _, test := range []struct {
		want string
		opts core.LogOptions
	}{
		{"", core.LogOptions{}},
		{"late\n", core.LogOptions{Tail: 1}},
		{"early\nlate\n", core.LogOptions{Tail: 9, Follow: true}},
		{"early\n", core.LogOptions{Tail: -1, Until: late}},
		{"late\n", core.LogOptions{Tail: -1, Since: late}},
	} {
		test.opts.Exec = exec
		if got, _ := read(test.opts); got != test.want {
			t.Errorf("%+v: the log is %q, want %q", test.opts, got, test.want)
		}
	}
	for _, err := range logs.Logs(t.Context(), sandbox, core.LogOptions{Exec: "999"}) {
		wantKind(t, err, core.KindNotFound)
	}
	process := begin(
		t, p, sandbox,
		core.ExecSpec{
			Command: []string{"sh", "-c", "echo one; while ! test -e /tmp/two; do sleep 0.05; done; echo two"}, Detach: true,
		},
	)
	var followed strings.Builder
	for record, err := range logs.Logs(t.Context(), sandbox, core.LogOptions{Exec: process.ID(), Tail: -1, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		followed.Write(record.Data)
		if followed.String() == "one\n" {
			sh(t, p, sandbox, "touch /tmp/two")
		}
	}
	if followed.String() != "one\ntwo\n" {
		t.Errorf("followed: %q", followed.String())
	}
}

func (s *suite) terminal(t *testing.T) {
	p := s.provider(t)
	if !p.Capabilities().Can(core.CapTTY) {
		return
	}
	sb := launch(t, p, nil)
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	var screen safeBuffer
	process := begin(
		t, p, sb.ID,
		core.ExecSpec{
			Command: []string{"sh"}, TTY: true, Size: core.TerminalSize{Rows: 30, Cols: 90}, Stdin: in, Stdout: &screen,
		},
	)
	say := func(line, answer string) {
		t.Helper()
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, line+" answers "+answer, func() bool { return strings.Contains(screen.String(), answer) })
	}
	say("tty", "/dev/pts/")
	say("stty size", "30 90")
	if err := process.Resize(t.Context(), core.TerminalSize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new size is there", func() bool {
		_, _ = io.WriteString(out, "stty size\n")
		return strings.Contains(screen.String(), "40 120")
	})
	// Before the shell runs the line, Ctrl-C may be a key of its line editor.
	say("echo slee$((3*7))ps; sleep 600", "slee21ps")
	// gVisor can lose each Ctrl-C after one that comes before the shell has started the command. The fake has no /proc.
	eventually(t, "the command runs", func() bool {
		names := sh(t, p, sb.ID, "cat /proc/[0-9]*/comm 2>/dev/null").out
		return !strings.Contains(names, "sh\n") || strings.Contains(names, "sleep\n")
	})
	var requested time.Time
	eventually(t, "Ctrl-C ends the command and not the shell", func() bool {
		// A Ctrl-C makes a terminal discard its unread input.
		if time.Since(requested) > time.Second {
			_, _ = io.WriteString(out, "\x03echo on$((40+2))\n")
			requested = time.Now()
		}
		return strings.Contains(screen.String(), "on42")
	})
	if _, err := io.WriteString(out, "exit 6\n"); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, process); exit.Code != 6 {
		t.Errorf("%+v on %q", exit, screen.String())
	}
}

// safeBuffer is a bytes.Buffer for two goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *suite) limits(t *testing.T) {
	p := s.provider(t)
	caps := p.Capabilities()
	neighbor := launch(t, p, nil)
	if caps.Can(core.CapDisk) {
		sb := launch(t, p, func(spec *core.Spec) { spec.Disk = 32 * core.MiB })
		if r := sh(t, p, sb.ID, "head -c 100000000 /dev/zero | cat > /tmp/full"); r.exit.Code == 0 ||
			!strings.Contains(r.err, "No space left") {
			t.Errorf("filling the disk: %+v", r)
		}
		if r := sh(t, p, sb.ID, "rm /tmp/full; echo alive"); r.out != "alive\n" {
			t.Errorf("after filling the disk: %+v", r)
		}
	}
	if caps.Can(core.CapProcesses) {
		sb := launch(t, p, func(spec *core.Spec) { spec.Processes = 40 })
		r := sh(t, p, sb.ID, "i=0; while [ $i -lt 200 ]; do sleep 600 >/dev/null 2>&1 & i=$((i+1)); done; echo all")
		if strings.Contains(r.out, "all") {
			t.Errorf("200 processes under a limit of 40: %+v", r)
		}
	}
	if caps.Can(core.CapMemory) {
		sb := launch(t, p, func(spec *core.Spec) { spec.Memory = 64 * core.MiB })
		r := sh(t, p, sb.ID, "x=0123456789abcdef; while :; do x=$x$x; done")
		if r.exit.Code == 0 {
			t.Errorf("a memory bomb ended with %+v", r)
		}
		if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State == core.StateFailed &&
			got.Reason != core.ReasonMemory {
			t.Errorf("after the memory bomb: %+v, %v", got, err)
		}
	}
	if r := sh(t, p, neighbor.ID, "echo well"); r.out != "well\n" {
		t.Errorf("the neighbor: %+v", r)
	}
}

// fullDisk is a file on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/full", Err: syscall.ENOSPC}
}
