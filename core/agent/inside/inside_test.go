//go:build linux

package inside

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// asGuest makes this test binary run as the program itself.
const asGuest = "SB_GUEST_UNDER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asGuest) != "" {
		os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// command returns the helper as a process with that argv.
func command(t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, self)
	c.Args = argv
	c.Env = append(os.Environ(), asGuest+"=1")
	return c
}

// do runs one file operation and returns its answer.
func do(t *testing.T, r guest.Request, body io.Reader) ([]byte, guest.Report, error) {
	t.Helper()
	argv, err := r.Argv()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := command(t, argv)
	c.Stdin, c.Stdout, c.Stderr = body, &stdout, &stderr
	runErr := c.Run()
	report, err := guest.DecodeReport(stderr.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if (runErr != nil) != (report.Error != nil) {
		t.Fatalf("exit %v, but report %s", runErr, stderr.Bytes())
	}
	return stdout.Bytes(), report, report.Err("test")
}

func request(op guest.Op, path string) guest.Request {
	return guest.Request{Op: op, Path: []byte(path)}
}

func framed(t *testing.T, content string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := guest.NewBodyWriter(&b)
	if _, err := io.Copy(w, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteReadStat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "b\xff")
	r := request(guest.OpWrite, path)
	r.Parents, r.Mode = true, 0o640
	if _, _, err := do(t, r, framed(t, "content")); err != nil {
		t.Fatal(err)
	}
	got, _, err := do(t, request(guest.OpRead, path), nil)
	if err != nil || string(got) != "content" {
		t.Errorf("read: %q, %v", got, err)
	}
	answer, _, err := do(t, request(guest.OpReadDir, filepath.Dir(path)), nil)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := guest.DecodeListing(bytes.NewReader(answer), filepath.Dir(path))
	if err != nil || len(infos) != 1 || infos[0].Path != path || infos[0].Mode != 0o640 || infos[0].Size != 7 {
		t.Errorf("readdir: %+v, %v", infos, err)
	}
}

func TestBrokenWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := framed(t, strings.Repeat("new", 1000)).Bytes()
	for _, cut := range []int{0, 2, 100, len(whole) - 4, len(whole) - 1} {
		if _, _, err := do(t, request(guest.OpWrite, path), bytes.NewReader(whole[:cut])); err == nil {
			t.Errorf("cut at %d: no error", cut)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("content is %q", got)
	}
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestWriteKeepsModeFollowsLinksAppends(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := do(t, request(guest.OpWrite, link), framed(t, "new")); err != nil {
		t.Fatal(err)
	}
	r := request(guest.OpWrite, link)
	r.Append = true
	if _, _, err := do(t, r, framed(t, "er")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if got, _ := os.ReadFile(path); err != nil || string(got) != "newer" || info.Mode() != 0o600 {
		t.Errorf("%q, %v, %v", got, info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link was replaced: %v, %v", info.Mode(), err)
	}
}

func TestErrorKinds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		op   guest.Op
		path string
		want core.Kind
	}{
		{guest.OpStat, dir + "/none", core.KindNotFound},
		{guest.OpRead, dir, core.KindConflict},
		{guest.OpRead, "/dev/null", core.KindConflict},
		{guest.OpWrite, dir, core.KindConflict},
		{guest.OpMkdir, dir, core.KindConflict},
		{guest.OpMkdir, dir + "/a/b", core.KindNotFound},
		{guest.OpReadDir, dir + "/file", core.KindConflict},
		{guest.OpRemove, dir, core.KindConflict},
		{guest.OpRemove, "/", core.KindUsage},
		{guest.OpStat, "relative", core.KindUsage},
		{guest.OpStat, dir + "/" + strings.Repeat("x", 300), core.KindUsage},
		{"bogus", dir, core.KindUnsupported},
	} {
		if _, _, err := do(t, request(c.op, c.path), framed(t, "")); !errors.Is(err, c.want) {
			t.Errorf("%s %s: %v (%v), want %v", c.op, c.path, err, core.KindOf(err), c.want)
		}
	}
}

func TestExportImportRoundTrip(t *testing.T) {
	from := filepath.Join(t.TempDir(), "tree")
	when := time.Unix(1234567890, 123456789)
	err := errors.Join(
		os.MkdirAll(from+"/sub", 0o750),
		os.WriteFile(from+"/sub/b\xfe", bytes.Repeat([]byte("x"), 3<<20), 0o640),
		os.Link(from+"/sub/b\xfe", from+"/twin"),
		os.Symlink("sub/b\xfe", from+"/link"),
		unix.Mkfifo(from+"/pipe", 0o600),
		os.Symlink("/usr/bin/python3", from+"/absolute"),
		os.WriteFile(from+"/setuid", []byte("x"), 0o755),
		os.Chmod(from+"/setuid", 0o755|fs.ModeSetuid),
		os.Truncate(from+"/sub/b\xfe", 8<<20),
		unix.Mknod(from+"/socket", unix.S_IFSOCK|0o600, 0),
		os.Chtimes(from+"/sub/b\xfe", when, when),
		os.Chmod(from+"/sub", 0o555),
	)
	if err != nil {
		t.Fatal(err)
	}
	archive, report, err := do(t, request(guest.OpExport, from), nil)
	if err != nil || report.Skipped != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	to := t.TempDir()
	_, report, err = do(t, request(guest.OpImport, to), bytes.NewReader(archive))
	if err != nil || report.Skipped != 1 || string(report.SkippedPaths[0]) != "tree/socket" {
		t.Fatalf("%+v, %v", report, err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Chmod(from+"/sub", 0o700), os.Chmod(to+"/tree/sub", 0o700)) })
	file, err1 := os.Stat(to + "/tree/sub/b\xfe")
	twin, err2 := os.Stat(to + "/tree/twin")
	sub, err3 := os.Stat(to + "/tree/sub")
	link, err4 := os.Readlink(to + "/tree/link")
	outside, err5 := os.Readlink(to + "/tree/absolute")
	setuid, err6 := os.Stat(to + "/tree/setuid")
	pipe, err7 := os.Stat(to + "/tree/pipe")
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	if outside != "/usr/bin/python3" || setuid.Mode() != 0o755|fs.ModeSetuid || pipe.Mode() != 0o600|fs.ModeNamedPipe {
		t.Errorf("link %q, setuid %v, pipe %v", outside, setuid.Mode(), pipe.Mode())
	}
	if st, ok := file.Sys().(*syscall.Stat_t); !ok || st.Blocks*512 > 4<<20 {
		t.Errorf("a file of %d bytes with a hole takes %d", file.Size(), st.Blocks*512)
	}
	if file.Mode() != 0o640 || file.Size() != 8<<20 || !file.ModTime().Equal(when) || !os.SameFile(file, twin) ||
		sub.Mode().Perm() != 0o555 || link != "sub/b\xfe" {
		t.Errorf(
			"file %v %d %v, same %v, sub %v, link %q", file.Mode(), file.Size(), file.ModTime(), os.SameFile(file, twin),
			sub.Mode(), link,
		)
	}
	// A broken import removes the files that it created.
	for _, cut := range []int{0, 512, 1536, len(archive) / 2, len(archive) - 1024} {
		dir := t.TempDir()
		if _, _, err := do(t, request(guest.OpImport, dir), bytes.NewReader(archive[:cut])); !errors.Is(err, core.KindUsage) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Errorf("cut at %d leaves %q", cut, left)
		}
	}
}

func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o755
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hostileArchives(t testing.TB) map[string][]byte {
	t.Helper()
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	dir := tar.Header{Typeflag: tar.TypeDir, Name: "d/"}
	return map[string][]byte{
		"parent":              archiveOf(t, file("../evil")),
		"parent in the midst": archiveOf(t, dir, file("d/../../evil")),
		"absolute":            archiveOf(t, file("/evil")),
		"absolute link":       archiveOf(t, link("l", "/"), file("l/evil")),
		"link to parent":      archiveOf(t, link("l", ".."), file("l/evil")),
		"up a link":           archiveOf(t, dir, link("d/l", ".."), link("d/x", "l/.."), file("d/x/evil")),
		"over a new link":     archiveOf(t, link("l", "out"), file("l/evil")),
		"hard link to a link": archiveOf(t, link("l", ".."), hard("h", "l"), file("h/evil")),
		"hard link":           archiveOf(t, hard("h", "../secret")),
		"hard link absolute":  archiveOf(t, hard("h", "/etc/passwd")),
		"existing link":       archiveOf(t, file("out/evil")),
		"existing link dir":   archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "out/evil/"}),
		"hard link by link":   archiveOf(t, hard("h", "out/secret")),
		"itself":              archiveOf(t, file(".")),
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	for name, archive := range hostileArchives(t) {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			dir := filepath.Join(outside, "in")
			err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink("..", dir+"/out"), os.WriteFile(outside+"/secret", nil, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := do(t, request(guest.OpImport, dir), bytes.NewReader(archive)); !errors.Is(err, core.KindUsage) {
				t.Errorf("import: %v, want a refusal", err)
			}
			if diff := cmp.Diff([]string{"in", "secret"}, names(t, outside)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"out"}, names(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// limitFileSize bounds files for a test: a sparse file of an archive can have any size. In a sandbox the disk limit
// ends it.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		signal.Reset(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	})
}

func FuzzImport(f *testing.F) {
	for _, archive := range hostileArchives(f) {
		f.Add(archive)
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		limitFileSize(t, 1<<20)
		outside := t.TempDir()
		dir := filepath.Join(outside, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = importArchive(dir, bytes.NewReader(archive), guest.Request{}, &guest.Report{})
		if diff := cmp.Diff([]string{"in"}, names(t, outside)); diff != "" {
			t.Error(diff)
		}
	})
}

// pty runs a shell script on a terminal. It returns the terminal's output, the report and the exit code.
func pty(t *testing.T, stdin io.Reader, argv ...string) (string, guest.Report, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := command(t, guest.PTYArgv(core.TerminalSize{Rows: 30, Cols: 90}, argv))
	c.Stdin, c.Stdout, c.Stderr = stdin, &stdout, &stderr
	_ = c.Run()
	report, err := guest.DecodeReport(stderr.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String(), report, c.ProcessState.ExitCode()
}

func TestPTY(t *testing.T) {
	shown, _, code := pty(t, nil, "sh", "-c", "tty; stty size; exit 7")
	if !strings.HasPrefix(shown, "/dev/pts/") || !strings.Contains(shown, "30 90") || code != 7 {
		t.Errorf("%q, exit %d", shown, code)
	}
	if shown, _, code := pty(t, strings.NewReader("typed"), "cat"); !strings.Contains(shown, "typed") || code != 0 {
		t.Errorf("end of file is not passed on: %q, exit %d", shown, code)
	}
	if _, r, code := pty(t, nil, "sh", "-c", "kill -9 $$"); code != 137 || r.Exit == nil || r.Exit.Signal != 9 {
		t.Errorf("killed: %d, %+v", code, r)
	}
	if _, r, code := pty(t, nil, "no-such-program"); code != 127 || r.Error == nil {
		t.Errorf("missing: %d, %+v", code, r)
	}
	if _, _, code := pty(t, nil, "/etc/passwd"); code != 126 {
		t.Errorf("not executable: %d", code)
	}
	if shown, _, _ := pty(
		t, nil, "sh", "-c", "sleep 30 & head -c 200000 /dev/zero | tr '\\0' x; echo; echo end",
	); !strings.HasSuffix(shown, "end\r\n") {
		t.Errorf("output is cut: %d bytes", len(shown))
	}
}

func TestPTYControl(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(w.Close(), in.Close(), typed.Close()) }()
	c := command(t, guest.PTYArgv(core.TerminalSize{Rows: 1, Cols: 1}, []string{
		"sh", "-c", "trap 'stty size' WINCH; trap 'exit 9' USR1; echo ready; while :; do read x; done",
	}))
	c.Stdin, c.ExtraFiles = in, []*os.File{r}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	expect := func(want string) {
		t.Helper()
		var seen strings.Builder
		for b := make([]byte, 1); !strings.Contains(seen.String(), want); {
			if n, err := stdout.Read(b); err != nil {
				t.Fatalf("waiting for %q: %q, %v", want, seen.String(), err)
			} else {
				seen.Write(b[:n])
			}
		}
	}
	expect("ready")
	_, _ = w.Write(guest.Resize(core.TerminalSize{Rows: 44, Cols: 133}))
	_, _ = typed.WriteString("\n") // some shells run a trap only when read returns
	expect("44 133")
	_, _ = w.Write(guest.Signal(int(unix.SIGUSR1)))
	_, _ = typed.WriteString("\n")
	_, _ = io.Copy(io.Discard, stdout)
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit %d, want 9", code)
	}
}

func TestInterruptKeyReachesTheForegroundJob(t *testing.T) {
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), typed.Close()) }()
	c := command(t, guest.PTYArgv(core.TerminalSize{}, []string{"sh", "-c", "echo ready; exec sleep 60"}))
	c.Stdin = in
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	_, _ = typed.WriteString("\x03")
	_, _ = io.Copy(io.Discard, stdout)
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
}

// Files, directories and links that vanish during an export are skipped.
func TestExportDuringRemoval(t *testing.T) {
	tree := t.TempDir()
	over := make(chan struct{})
	var churn sync.WaitGroup
	defer churn.Wait()
	defer close(over)
	churn.Go(func() {
		for {
			for i := range 20 {
				_ = os.Mkdir(filepath.Join(tree, "d"+strconv.Itoa(i)), 0o755)
				_ = os.Symlink("d0", filepath.Join(tree, "l"+strconv.Itoa(i)))
			}
			for i := range 20 {
				_ = os.Remove(filepath.Join(tree, "d"+strconv.Itoa(i)))
				_ = os.Remove(filepath.Join(tree, "l"+strconv.Itoa(i)))
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for begin := time.Now(); time.Since(begin) < time.Second; {
		if _, _, err := do(t, request(guest.OpExport, tree), nil); err != nil {
			t.Fatal(err)
		}
	}
}
