//go:build linux

package modal_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// shell runs a script in a sandbox and returns its output.
func shell(t *testing.T, p core.Provider, id, script string) string {
	t.Helper()
	var out, complaints strings.Builder
	if exit := ran(
		t, p, id, core.ExecSpec{Command: []string{"sh", "-c", script}, Stdout: &out, Stderr: &complaints},
	); exit.Code != 0 {
		t.Fatalf("%s: %+v: %s", script, exit, complaints.String())
	}
	return out.String()
}

// finish creates the file that the entry command of a sandbox waits for. The entry command then ends the sandbox, which
// can kill touch before touch itself exits, so only the end of the sandbox shows that it worked.
func finish(t *testing.T, p core.Provider, id, path string) {
	t.Helper()
	if process, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"touch", path}}); err == nil {
		_ = process.Close()
	} else if !errors.Is(err, core.KindConflict) {
		t.Fatal(err)
	}
}

// A rewritten file keeps its mode, and a link to it stays a link. Stat returns the owner as numbers.
func TestFileDetails(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	ctx := t.Context()
	shell(
		t, p, id,
		`mkdir /tmp/d; echo old >/tmp/d/f; chmod 751 /tmp/d/f; chown nobody:daemon /tmp/d/f; ln -s d/f /tmp/link; echo a >/tmp/log`,
	)
	if err := p.WriteFile(ctx, id, "/tmp/link", strings.NewReader("new"), core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFile(ctx, id, "/tmp/log", strings.NewReader("b\n"), core.WriteOptions{Append: true}); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFile(ctx, id, "/tmp/x/y/new", strings.NewReader(""), core.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := shell(
		t, p, id,
		`cat /tmp/d/f /tmp/log; stat -c %a /tmp/d/f /tmp/x/y/new; ls -A /tmp/d /tmp/x/y; ls -A /tmp | grep sb-new; readlink /tmp/link`,
	),
		"newa\nb\n751\n644\n/tmp/d:\nf\n\n/tmp/x/y:\nnew\nd/f\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	shell(t, p, id, `chown nobody:daemon /tmp/d/f; chmod 4751 /tmp/d/f`)
	users := shell(t, p, id, `stat -c '%u %g' /tmp/d/f`)
	info, err := p.Stat(ctx, id, "/tmp/d/f")
	if err != nil || users != fmt.Sprintln(info.UID, info.GID) || info.Mode != 0o751|fs.ModeSetuid {
		t.Errorf("%+v, %v; the owner is %s", info, err, users)
	}
	for name, kind := range map[string]core.Kind{"/tmp/d/f/below": core.KindConflict, "/tmp/none": core.KindNotFound} {
		if _, err := p.ReadDir(ctx, id, name); !errors.Is(err, kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Remove(ctx, id, "/tmp/none\xff", true); !errors.Is(err, core.KindNotFound) {
		t.Error(err)
	}
	if err := errors.Join(p.Mkdir(ctx, id, "/tmp/odd\xff", false), p.Remove(ctx, id, "/tmp/odd\xff", false)); err != nil {
		t.Error(err)
	}
}

// tree returns an archive with all kinds of entries of a directory.
func tree(t *testing.T, large int) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "tree/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	add(tar.Header{Name: "tree/run", Typeflag: tar.TypeReg, Mode: 0o755}, "#!/bin/sh\n")
	add(tar.Header{Name: "tree/-odd \\name", Typeflag: tar.TypeReg, Mode: 0o600}, "odd")
	add(tar.Header{Name: "tree/.hidden/deep/file", Typeflag: tar.TypeReg, Mode: 0o644}, "deep")
	add(tar.Header{Name: "tree/large", Typeflag: tar.TypeReg, Mode: 0o644}, strings.Repeat("0123456789abcdef", large/16))
	add(tar.Header{Name: "tree/link", Typeflag: tar.TypeSymlink, Linkname: ".hidden/deep"}, "")
	add(tar.Header{Name: "tree/same", Typeflag: tar.TypeLink, Linkname: "tree/run"}, "")
	add(tar.Header{Name: "tree/pipe", Typeflag: tar.TypeFifo, Mode: 0o640}, "")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// listing describes the entries of an archive by name.
func listing(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	found := map[string]string{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			found[strings.TrimSuffix(h.Name, "/")] = "directory"
		case tar.TypeSymlink:
			found[h.Name] = "to " + h.Linkname
		case tar.TypeLink:
			found[h.Name] = found[h.Linkname]
		case tar.TypeFifo:
			found[h.Name] = "pipe " + fs.FileMode(h.Mode).String()
		case guest.TypeSocket:
			found[h.Name] = "socket"
		default:
			found[h.Name] = fs.FileMode(h.Mode).String() + string(content)
		}
	}
}

// Directories are copied completely in both directions, with the image's tar and, without tar, file by file.
func TestTreesWithAndWithoutTar(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	ctx := t.Context()
	archive := tree(t, 600<<10)
	want := listing(t, bytes.NewReader(archive))
	want["tree/.hidden"], want["tree/.hidden/deep"], want["tree/socket"] = "directory", "directory", "socket"
	for _, with := range []string{"tar", "no tar"} {
		t.Run(with, func(t *testing.T) {
			if with == "no tar" {
				shell(t, p, id, "rm -rf /tmp/to; rm $(command -v tar)")
			}
			shell(
				t, p, id,
				"mkdir -p /tmp/to/tree/.hidden; chmod 700 /tmp/to/tree; echo old >/tmp/to/tree/run; echo mine >/tmp/to/tree/mine",
			)
			if err := p.Import(ctx, id, "/tmp/to", bytes.NewReader(archive), core.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := shell(t, p, id, "cd /tmp/to; ls -A; rm tree/mine; stat -c %a tree"); got != "tree\n700\n" {
				t.Errorf("beside the tree is %q", got)
			}
			shell(t, p, id, `python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/tmp/to/tree/socket")'`)
			back, err := p.Export(ctx, id, "/tmp/to/tree")
			if err != nil {
				t.Fatal(err)
			}
			got := listing(t, back)
			if err := back.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%.2000s", diff)
			}
			if err := p.Import(
				ctx, id, "/tmp/to", bytes.NewReader(archive[:len(archive)/2]), core.ImportOptions{},
			); !errors.Is(err, core.KindUsage) {
				t.Errorf("half an archive: %v", err)
			}
			if _, err := p.Export(ctx, id, "/tmp/none"); !errors.Is(err, core.KindNotFound) {
				t.Errorf("nothing: %v", err)
			}
			if left := shell(t, p, id, "ls -A /tmp/to"); left != "tree\n" {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// Files work in an image without a shell. An operation that the tool does not support is rejected.
func TestFilesWithoutShell(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	ctx := t.Context()
	shell(t, p, id, "mkdir /tmp/in; rm $(command -v sh)")
	if err := p.WriteFile(ctx, id, "/tmp/in/f", strings.NewReader("content"), core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	content, err := p.ReadFile(ctx, id, "/tmp/in/f")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(content); err != nil || string(text) != "content" {
		t.Errorf("%q, %v", text, err)
	}
	_ = content.Close()
	if err := p.WriteFile(ctx, id, "/tmp/in/f", strings.NewReader("x"), core.WriteOptions{Mode: 0o755}); !errors.Is(
		err, core.KindUnsupported,
	) {
		t.Errorf("a mode: %v", err)
	}
	if err := p.WriteFile(ctx, id, "/tmp/no/f", strings.NewReader("x"), core.WriteOptions{}); !errors.Is(
		err, core.KindNotFound,
	) {
		t.Errorf("no directory: %v", err)
	}
	if infos, err := p.ReadDir(ctx, id, "/tmp/in"); err != nil || len(infos) != 1 {
		t.Errorf("left behind: %+v, %v", infos, err)
	}
}

// A transfer resumes after a broken connection. A write whose source breaks leaves the old content.
func TestBrokenTransfers(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	ctx := t.Context()
	shell(t, p, id, "mkdir /tmp/to; echo old >/tmp/f")
	r.faults.Cut("TaskExecStdioRead", 300<<10)
	for range 20 {
		r.faults.Plan("TaskExecStdinWrite", modaltest.Fault{Code: codes.Unavailable, After: true}, modaltest.Fault{})
	}
	archive := tree(t, 3<<20)
	if err := p.Import(ctx, id, "/tmp/to", bytes.NewReader(archive), core.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	back, err := p.Export(ctx, id, "/tmp/to/tree")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = back.Close() }()
	want := listing(t, bytes.NewReader(archive))
	want["tree/.hidden"], want["tree/.hidden/deep"] = "directory", "directory"
	if diff := cmp.Diff(want, listing(t, back)); diff != "" {
		t.Errorf("(-want +got):\n%.2000s", diff)
	}
	broken := io.MultiReader(strings.NewReader("half"), brokenReader{})
	if err := p.WriteFile(ctx, id, "/tmp/f", broken, core.WriteOptions{}); err == nil {
		t.Error("half a file was written")
	}
	if err := p.Import(
		ctx, id, "/tmp/to", io.MultiReader(bytes.NewReader(archive[:1<<20]), brokenReader{}), core.ImportOptions{},
	); err == nil {
		t.Error("half an archive was imported")
	}
	if got := shell(t, p, id, "cat /tmp/f; ls -A /tmp/to; ls -A /tmp | grep sb-new; :"); got != "old\ntree\n" {
		t.Errorf("after broken writes: %q", got)
	}
}

// endless is content that never ends; begun is closed after the first read.
type endless struct {
	begun chan struct{}
	once  sync.Once
}

func (e *endless) Read(b []byte) (int, error) {
	e.once.Do(func() { close(e.begun) })
	return copy(b, "endless "), nil
}

// A canceled transfer leaves neither files nor a program that waits for input.
func TestTransferCanceled(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	shell(t, p, id, "mkdir /tmp/to; echo old >/tmp/f")
	for name, put := range map[string]func(context.Context, io.Reader) error{
		"file": func(ctx context.Context, content io.Reader) error {
			return p.WriteFile(ctx, id, "/tmp/f", content, core.WriteOptions{})
		},
		"tree": func(ctx context.Context, content io.Reader) error {
			var header bytes.Buffer
			if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "large", Size: 1 << 40, Mode: 0o600}); err != nil {
				return err
			}
			return p.Import(ctx, id, "/tmp/to", io.MultiReader(&header, content), core.ImportOptions{})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		content := &endless{begun: make(chan struct{})}
		go func() { <-content.begun; cancel() }()
		if err := put(ctx, content); !errors.Is(err, core.KindCanceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	// All content has arrived, but the script that moves it into place cannot start.
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "new", Mode: 0o600}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"file": func() error {
			return p.WriteFile(t.Context(), id, "/tmp/f", strings.NewReader("new"), core.WriteOptions{})
		},
		"tree": func() error { return p.Import(t.Context(), id, "/tmp/to", &archive, core.ImportOptions{}) },
	} {
		r.faults.Plan("TaskExecStart", modaltest.Fault{}, modaltest.Fault{Code: codes.ResourceExhausted, Message: "no more"})
		if err := put(); !errors.Is(err, core.KindExhausted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := shell(
		t, p, id, "cat /tmp/f; ls -A /tmp/to; ls -A /tmp | grep sb-; ps -e -o args= | grep -c '[t]ar -x'; :",
	); got != "old\n0\n" {
		t.Errorf("left behind: %q", got)
	}
}

// memoryMeter is content that measures the memory in use while it is read.
type memoryMeter struct {
	r     io.Reader
	last  int64
	total int64
	most  uint64
}

func (m *memoryMeter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if m.total += int64(n); m.total-m.last > 2<<20 {
		m.last = m.total
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		m.most = max(m.most, stats.HeapAlloc)
	}
	return n, err
}

// serverVariable makes this test's program a server, so that a measurement excludes the server's memory.
const serverVariable = "SB_MODALTEST_SERVER"

// A large file is sent in pieces.
func TestLargeFileInLittleMemory(t *testing.T) {
	programtest.Long(t)
	serverOfItsOwn(t)
	p := modal.New(modal.Options{})
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	// The number of pieces in transit depends on the speed of both sides, but it is less than a third of the file.
	const size, room = 100 << 20, 32 << 20
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for name, put := range map[string]func(io.Reader) error{
		"file": func(r io.Reader) error {
			return p.WriteFile(t.Context(), id, "/tmp/large", r, core.WriteOptions{Mode: 0o600})
		},
		"tree": func(r io.Reader) error {
			pr, pw := io.Pipe()
			go func() {
				w := tar.NewWriter(pw)
				err := w.WriteHeader(&tar.Header{Name: "inside", Size: size, Mode: 0o600})
				if err == nil {
					_, err = io.Copy(w, r)
				}
				_ = pw.CloseWithError(errors.Join(err, w.Close()))
			}()
			return p.Import(t.Context(), id, "/tmp", pr, core.ImportOptions{})
		},
	} {
		meter := &memoryMeter{r: io.LimitReader(rand.NewChaCha8([32]byte{1}), size)}
		if err := put(meter); err != nil {
			t.Fatal(err)
		}
		if grown := int64(meter.most) - int64(before.HeapAlloc); grown > room {
			t.Errorf("%s: the heap grew by %d bytes", name, grown)
		}
	}
	if got := shell(t, p, id, "stat -c '%s %a' /tmp/large /tmp/inside"); got != "104857600 600\n104857600 600\n" {
		t.Errorf("there is %q", got)
	}
}

// serverOfItsOwn starts a server in a separate process and points the environment at it.
func serverOfItsOwn(t *testing.T) {
	t.Helper()
	// The test's context ends before its cleanup, and would kill the server before the server has cleaned up.
	server := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+t.TempDir())
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends the server
		if err := server.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
	})
	url := make([]byte, 200)
	n, err := out.Read(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MODAL_SERVER_URL", strings.TrimSpace(string(url[:n])))
	t.Setenv("MODAL_CONFIG_PATH", t.TempDir()+"/modal.toml")
	t.Setenv("MODAL_TOKEN_ID", tokenID)
	t.Setenv("MODAL_TOKEN_SECRET", tokenSecret)
}
