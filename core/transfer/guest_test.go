package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// forger is a sandbox with a forged helper. Its answers may have any content and any length.
type forger func(request guest.Request) io.Reader

func (f forger) Operate(ctx context.Context, _ string, request guest.Request) (guest.Operation, error) {
	return forged{ctx: ctx, Reader: f(request)}, nil
}

type forged struct {
	ctx context.Context
	io.Reader
}

func (o forged) Read(p []byte) (int, error) {
	if o.ctx.Err() != nil {
		return 0, io.EOF
	}
	return o.Reader.Read(p)
}

func (forged) Write(p []byte) (int, error) { return len(p), nil }
func (forged) CloseWrite() error           { return nil }
func (forged) Break()                      {}
func (o forged) Close() error              { return o.ctx.Err() }

// line returns the answer that describes a file.
func line(tb testing.TB, e guest.Entry) string {
	tb.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text) + "\n"
}

// home returns a target in a directory of the user. check fails if a file beside the target changed.
func home(t *testing.T) (target string, check func()) {
	t.Helper()
	dir := t.TempDir()
	target = filepath.Join(dir, "downloads")
	if err := errors.Join(
		os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(dir, ".bashrc"), []byte("mine"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return target, func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		text, readErr := os.ReadFile(filepath.Join(dir, ".bashrc"))
		if err != nil || readErr != nil || len(entries) != 2 || string(text) != "mine" {
			t.Errorf("beside the target there is %v, .bashrc is %q: %v, %v", entries, text, err, readErr)
		}
	}
}

func TestForgedDescriptionIsRefused(t *testing.T) {
	const mode = uint32(0o644)
	long := strings.Repeat("x", guest.MaxEntry)
	for name, entry := range map[string]guest.Entry{
		"parent":        {Path: []byte("../.bashrc"), Mode: mode},
		"parent below":  {Path: []byte("/src/../.bashrc"), Mode: mode},
		"other":         {Path: []byte("/etc/.bashrc"), Mode: mode},
		"not clean":     {Path: []byte("/src/.."), Mode: mode},
		"empty":         {Mode: mode},
		"negative size": {Path: []byte("/src"), Mode: mode, Size: -1},
		"unknown mode":  {Path: []byte("/src"), Mode: 1 << 17},
		"long":          {Path: []byte(long), Mode: mode},
		"long link":     {Path: []byte("/src"), Mode: uint32(fs.ModeSymlink), Link: []byte(long[:5000])},
	} {
		for _, op := range []guest.Op{guest.OpStat, guest.OpReadDir} {
			t.Run(name+" "+string(op), func(t *testing.T) {
				target, check := home(t)
				defer check()
				requested := entry
				if op == guest.OpReadDir && bytes.Equal(requested.Path, []byte("/src")) {
					requested.Path = []byte("/src/f")
				}
				files := guest.NewFiles("test", forger(func(request guest.Request) io.Reader {
					if request.Op == op {
						return strings.NewReader(line(t, requested))
					}
					return strings.NewReader("text")
				}))
				if op == guest.OpReadDir {
					if infos, err := files.ReadDir(t.Context(), "id", "/src"); err == nil {
						t.Errorf("it was believed: %v", infos)
					}
					return
				}
				_, err := Copy(t.Context(), files, Request{From: Endpoint{"evil", "/src"}, To: Endpoint{"", target}})
				if err == nil {
					t.Error("it was copied")
				}
				if entries, err := os.ReadDir(target); err != nil || len(entries) != 0 {
					t.Errorf("the target has %v, %v", entries, err)
				}
			})
		}
	}
}

// endless repeats a text without an end, and counts the bytes read.
type endless struct {
	text  string
	taken int64
}

func (e *endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], e.text[(e.taken+int64(n))%int64(len(e.text)):])
	}
	e.taken += int64(len(p))
	return len(p), nil
}

func TestEndlessAnswerIsCanceled(t *testing.T) {
	entry := line(t, guest.Entry{Path: []byte("/src/" + strings.Repeat("x", 2000)), Mode: 0o644})
	for name, text := range map[string]string{"lines": entry, "one line": "[[[[", "no JSON": "\x00", "empty lines": "\n"} {
		for op, ask := range map[string]func(guest.Files) error{
			"stat":    func(f guest.Files) error { _, err := f.Stat(t.Context(), "id", "/src"); return err },
			"readdir": func(f guest.Files) error { _, err := f.ReadDir(t.Context(), "id", "/src"); return err },
			"mkdir":   func(f guest.Files) error { return f.Mkdir(t.Context(), "id", "/src", false) },
			"remove":  func(f guest.Files) error { return f.Remove(t.Context(), "id", "/src", true) },
		} {
			answer := &endless{text: text}
			err := ask(guest.NewFiles("test", forger(func(guest.Request) io.Reader { return answer })))
			if err == nil || answer.taken > 2*guest.MaxListing {
				t.Errorf("%s, %s: %d bytes were read, %v", op, name, answer.taken, err)
			}
		}
	}
}

// liar is a sandbox that describes files under false paths, behind a provider that does not check them.
type liar struct {
	sender
	path string
	mode fs.FileMode
}

func (l liar) Stat(context.Context, string, string) (core.FileInfo, error) {
	return core.FileInfo{Path: l.path, Mode: l.mode, Size: 4}, nil
}

func TestPullUsesTypedName(t *testing.T) {
	archive := pack(t, tar.Header{Name: ".ssh/", Typeflag: tar.TypeDir}, tar.Header{Name: ".ssh/f", Typeflag: tar.TypeReg})
	for _, lie := range []string{"/x/.ssh", "..", "/..", "../../.bashrc", "", "/"} {
		for _, mode := range []fs.FileMode{0o600, fs.ModeDir | 0o700} {
			target, check := home(t)
			box := liar{sender{archive: archive, got: &bytes.Buffer{}}, lie, mode}
			result, err := Copy(t.Context(), box, Request{From: Endpoint{"evil", "/src"}, To: Endpoint{"", target + "/"}})
			if err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(target)
			if err != nil || len(entries) != 1 || entries[0].Name() != "src" {
				t.Errorf("%q made %v, %v, %+v", lie, entries, err, result)
			}
			check()
		}
	}
	// Paths without a name mean the directory's content.
	for _, from := range []string{"..", "/", "a/../..", "."} {
		target, check := home(t)
		if _, err := Copy(
			t.Context(), sender{archive: archive}, Request{From: Endpoint{"evil", from}, To: Endpoint{"", target}},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(target, "f")); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		check()
	}
}

// An earlier copy may have left a link, which a later one must not follow.
func TestCopyRefusesPlantedLink(t *testing.T) {
	dir := tar.Header{Name: "src/", Typeflag: tar.TypeDir}
	for name, second := range map[string]struct {
		from string
		box  sender
	}{
		"file":      {"/src/.bashrc", sender{file: true}},
		"directory": {"/.bashrc", sender{archive: pack(t, dir, tar.Header{Name: "src/f", Typeflag: tar.TypeReg})}},
		"tree": {
			"/src/",
			sender{
				archive: pack(
					t, dir, tar.Header{Name: "src/up/", Typeflag: tar.TypeDir},
					tar.Header{Name: "src/up/.bashrc", Typeflag: tar.TypeReg},
				),
			},
		},
		"linked": {"/up", sender{archive: pack(t, dir, tar.Header{Name: "src/.profile", Typeflag: tar.TypeReg})}},
		"over":   {"/src/", sender{archive: pack(t, dir, tar.Header{Name: "src/.bashrc", Typeflag: tar.TypeReg})}},
	} {
		t.Run(name, func(t *testing.T) {
			target, check := home(t)
			first := sender{archive: pack(t, dir,
				tar.Header{Name: "src/.bashrc", Typeflag: tar.TypeSymlink, Linkname: "../.bashrc"},
				tar.Header{Name: "src/up", Typeflag: tar.TypeSymlink, Linkname: ".."})}
			result, err := Copy(t.Context(), first, Request{From: Endpoint{"evil", "/src/"}, To: Endpoint{"", target}})
			if err != nil || len(result.Warnings) != 1 {
				t.Fatalf("%+v, %v", result, err)
			}
			_, err = Copy(t.Context(), second.box, Request{From: Endpoint{"evil", second.from}, To: Endpoint{"", target}})
			t.Log(err)
			check()
		})
	}
}

func TestArchiveMemoryIsBounded(t *testing.T) {
	target, check := home(t)
	defer check()
	r, w := io.Pipe()
	sent := make(chan int64)
	go func() {
		archive := tar.NewWriter(w)
		var n int64
		for i := 0; ; i++ {
			name := fmt.Sprintf("d/%d/%s/", i, strings.Repeat("x", 1<<19))
			if archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeDir, Format: tar.FormatPAX}) != nil {
				break
			}
			n += int64(len(name))
		}
		sent <- n
	}()
	_, err := Copy(
		t.Context(), streaming{r}, Request{From: Endpoint{"evil", "/d"}, To: Endpoint{"", target}, Exclude: []string{"*"}},
	)
	if n := providertest.Receive(t, sent); !errors.Is(err, core.KindExhausted) || n > 2*maxRemembered {
		t.Errorf("%d bytes of names were taken, %v", n, err)
	}
}

// streaming is a sandbox that sends a directory's archive while the test writes it.
type streaming struct{ r *io.PipeReader }

func (streaming) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	return core.FileInfo{Path: name, Mode: fs.ModeDir | 0o755}, nil
}

func (s streaming) Export(context.Context, string, string) (io.ReadCloser, error) { return s.r, nil }

func (streaming) ReadDir(context.Context, string, string) ([]core.FileInfo, error) {
	return nil, errors.ErrUnsupported
}

func (streaming) ReadFile(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

func (streaming) WriteFile(context.Context, string, string, io.Reader, core.WriteOptions) error {
	return errors.ErrUnsupported
}

func (streaming) Mkdir(context.Context, string, string, bool) error { return errors.ErrUnsupported }

func (streaming) Remove(context.Context, string, string, bool) error { return errors.ErrUnsupported }

func (streaming) Import(context.Context, string, string, io.Reader, core.ImportOptions) error {
	return errors.ErrUnsupported
}

// A copy of an endless source ends with its context, and leaves nothing.
func TestEndlessCopyEndsWithContext(t *testing.T) {
	header := pack(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir})[:512]
	headerOf := func(h tar.Header) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		return append(b.Bytes(), make([]byte, -b.Len()&511)...)
	}
	global := headerOf(tar.Header{
		Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"SB.x": "y"}, Format: tar.FormatPAX,
	})
	file := headerOf(tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 1 << 60})
	for name, archive := range map[string]io.Reader{
		"global headers": &endless{text: string(global)},
		"file":           io.MultiReader(bytes.NewReader(header), bytes.NewReader(file), &endless{text: "\x00"}),
		"end":            io.MultiReader(bytes.NewReader(header), &endless{text: "\x00"}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			target, check := home(t)
			defer check()
			stop := io.TeeReader(archive, after(8<<20, cancel))
			files := guest.NewFiles("test", forger(func(request guest.Request) io.Reader {
				if request.Op == guest.OpStat {
					return strings.NewReader(line(t, guest.Entry{Path: []byte("/d"), Mode: uint32(fs.ModeDir | 0o755), Size: 1 << 62}))
				}
				return stop
			}))
			_, err := Copy(ctx, files, Request{From: Endpoint{"evil", "/d"}, To: Endpoint{"", target}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("want it canceled, got %v", err)
			}
			if entries, err := os.ReadDir(target); err != nil || len(entries) != 0 {
				t.Errorf("left behind are %v, %v", entries, err)
			}
		})
	}
}

// after returns a writer that calls do after the given number of bytes.
func after(left int, do func()) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if left -= len(p); left < 0 {
			do()
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
