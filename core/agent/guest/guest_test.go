package guest

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestRequestSurvivesTheCommandLine(t *testing.T) {
	want := Request{Op: OpWrite, Path: []byte("/a/b\xff\n"), Mode: 0o640, Parents: true}
	argv, err := want.Argv()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseRequest(argv[2])
	want.Version = Version
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"v":1,"op":"stat"}`, `{"v":1,"op":"stat","path":"YQ=="}`, `{"v":1,"op":"stat","path":"LwA="}`,
		`{"v":2,"op":"stat","path":"Lw=="}`,
	} {
		if _, err := ParseRequest(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestControl(t *testing.T) {
	for wire, want := range map[string]Control{
		string(Resize(core.TerminalSize{Rows: 24, Cols: 80})): {Size: core.TerminalSize{Rows: 24, Cols: 80}},
		string(Signal(15)): {Signal: 15},
	} {
		got, err := ParseControl(wire)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", wire, got, err)
		}
	}
	for _, bad := range []string{"", "size 1", "size -1 2", "signal 0", "signal 65", "signal x", "kill 9"} {
		if _, err := ParseControl(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestBody(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	var wire bytes.Buffer
	w := NewBodyWriter(&wire)
	_, err1 := w.Write(content[:1000])
	_, err2 := w.ReadFrom(bytes.NewReader(content[1000:]))
	if err := errors.Join(err1, err2, w.Close()); err != nil {
		t.Fatal(err)
	}
	wire.WriteString("after")
	whole := wire.Bytes()
	rest := bytes.NewReader(whole)
	got, err := io.ReadAll(NewBodyReader(rest))
	if err != nil || !bytes.Equal(got, content) || rest.Len() != len("after") {
		t.Errorf("%d bytes, %v, %d left", len(got), err, rest.Len())
	}
	for _, cut := range []int{0, 3, 4, 5000, len(whole) - len("after") - 1} {
		if _, err := io.ReadAll(NewBodyReader(bytes.NewReader(whole[:cut]))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func TestReport(t *testing.T) {
	for _, data := range []string{"", "\n", "panic: oh no\n\ngoroutine 1"} {
		if _, err := DecodeReport([]byte(data)); core.KindOf(err) != core.KindInternal || err == nil {
			t.Errorf("%q: %v", data, err)
		}
	}
	r, err := DecodeReport([]byte(`{"error":{"kind":"not_found","path":"L2E=","message":"no such file"}}`))
	if e := r.Err("local.stat"); err != nil || !errors.Is(e, core.KindNotFound) || e.Error() != "/a: no such file" {
		t.Errorf("%v, %v", e, err)
	}
}

func TestReadExit(t *testing.T) {
	killed := core.Exit{Code: 137, Signal: 9}
	for report, want := range map[string]core.Exit{
		"":                                    killed,
		"panic: at the worst time":            killed,
		`{"exit":{"code":3}}`:                 {Code: 3},
		`{"exit":{"code":130,"signal":2}}`:    {Code: 130, Signal: 2},
		`{"error":{"message":"no terminal"}}`: {Code: 137, Signal: 9, Message: "no terminal"},
	} {
		exit := killed
		ReadExit(strings.NewReader(report), &exit)
		if exit != want {
			t.Errorf("after %q it is %+v", report, exit)
		}
	}
}

func FuzzBodyReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x', 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, wire []byte) {
		if content, _ := io.ReadAll(NewBodyReader(bytes.NewReader(wire))); len(content) > len(wire) {
			t.Error("more content than bytes")
		}
	})
}

func FuzzParsers(f *testing.F) {
	f.Add("size 1 2")
	f.Add(`{"v":1,"op":"stat","path":"Lw=="}`)
	f.Add(`{"path":"L2EvYg==","size":1,"mode":420,"mtime_ns":1}`)
	f.Add(`{"path":"L2EvLi4=","size":-1,"mode":4294967295}` + "\n" + `{"path":"Li4vLi4v"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseControl(text); err == nil && (c.Signal < 0 || c.Signal > 64) {
			t.Errorf("signal %d", c.Signal)
		}
		if r, err := ParseRequest(text); err == nil && r.Path[0] != '/' {
			t.Errorf("path %q", r.Path)
		}
		_, _ = DecodeReport([]byte(text))
		if info, err := DecodeStat(strings.NewReader(text), "/a/b"); err == nil && (info.Path != "/a/b" || info.Size < 0) {
			t.Errorf("stat: %+v", info)
		}
		infos, err := DecodeListing(strings.NewReader(text), "/a")
		if err != nil {
			return
		}
		for _, info := range infos {
			if path.Dir(info.Path) != "/a" || path.Clean(info.Path) != info.Path || info.Size < 0 {
				t.Errorf("listing: %+v", info)
			}
		}
	})
}
