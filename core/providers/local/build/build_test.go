package build_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/build"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runner is a build.Runner without sandboxes. A command is the content of the file /out, "fail" fails, and "layer NAME"
// makes the layer of that name.
type runner struct {
	mu     sync.Mutex
	runs   []build.Run
	layers map[string][]tar.Header
}

func (r *runner) Run(_ context.Context, run build.Run) (core.Exit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	command := run.Argv[len(run.Argv)-1]
	r.runs = append(r.runs, run)
	if file, err := os.Open(run.Root); err != nil {
		return core.Exit{}, err
	} else if _, err := erofs.Read(file); err != nil {
		return core.Exit{}, errors.Join(err, file.Close())
	} else if err := file.Close(); err != nil {
		return core.Exit{}, err
	}
	_, _ = fmt.Fprintf(run.Output, "runs %s\n", command)
	if strings.HasPrefix(command, "fail") {
		return core.Exit{Code: 7}, nil
	}
	entries := []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./out", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{"content": command}},
	}
	if name, ok := strings.CutPrefix(command, "layer "); ok {
		entries = r.layers[name]
	}
	_, err := run.Layer.Write(archive(entries...))
	return core.Exit{}, err
}

func archive(entries ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.PAXRecords["content"]
		h.PAXRecords, h.Size = nil, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, content)
	}
	_ = w.Close()
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{"content": content}}
}

// bench is a builder with its directories.
type bench struct {
	*build.Builder
	runner *runner
	dir    string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	state := t.TempDir()
	images, err := image.Open(filepath.Join(state, "images"))
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{layers: map[string][]tar.Header{}}
	b := &bench{Builder: &build.Builder{
		Images: images, Dir: filepath.Join(state, "builds"), Runner: r,
		Pull: func(ctx context.Context, ref string) (image.Image, error) {
			return images.Pull(ctx, ref, image.PullOptions{Policy: core.PullNever})
		},
	}, runner: r, dir: t.TempDir()}
	return b
}

func (b *bench) write(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) try(t testing.TB, dockerfile string, change func(*build.Options)) (image.Image, error) {
	t.Helper()
	o := build.Options{File: filepath.Join(b.dir, "Dockerfile"), Text: []byte(dockerfile), Context: b.dir}
	if change != nil {
		change(&o)
	}
	return b.Build(t.Context(), o)
}

func (b *bench) build(t testing.TB, dockerfile string, change func(*build.Options)) image.Image {
	t.Helper()
	built, err := b.try(t, dockerfile, change)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// list returns the files of an image that a build made, without those of every sandbox.
func list(t testing.TB, i image.Image) map[string]string {
	t.Helper()
	f, err := os.Open(i.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	root, err := erofs.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var walk func(path string, n *erofs.Node)
	walk = func(path string, n *erofs.Node) {
		prepared := strings.Fields("/dev /proc /sys /tmp /tmp/.X11-unix /etc /etc/hosts /etc/hostname /etc/resolv.conf")
		a := n.Attr()
		text := fmt.Sprintf("%o %d:%d", a.Mode&0o7777, a.UID, a.GID)
		switch {
		case n.IsFile():
			content, _ := io.ReadAll(erofs.Content(f, n))
			text += " " + string(content)
		case a.Target != "":
			text = "-> " + a.Target
		}
		if path != "" && !slices.Contains(prepared, path) {
			all[path] = text
		}
		for name, child := range n.Children {
			walk(path+"/"+name, child)
		}
	}
	walk("", root)
	return all
}

func TestCopy(t *testing.T) {
	b := newBench(t)
	b.write(t, "a", "A")
	b.write(t, "d/b", "B")
	b.write(t, "d/s/c", "C")
	b.write(t, "d/no.env", "secret")
	b.write(t, ".dockerignore", "**/*.env\n")
	if err := os.Symlink("b", filepath.Join(b.dir, "d", "l")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b.dir, "private", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(b.dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(archive(file("in/x", "X"), tar.Header{Name: "in/y", Typeflag: tar.TypeLink, Linkname: "in/x"}))
	_ = z.Close()
	b.write(t, "x.tar.gz", packed.String())
	for _, test := range []struct {
		name, dockerfile string
		want             map[string]string
	}{
		{"a file", "COPY a /to", map[string]string{"/to": "755 0:0 A"}},
		{"a file into a directory", "COPY a /to/", map[string]string{"/to": "755 0:0", "/to/a": "755 0:0 A"}},
		{"the content of a directory", "COPY d /to", map[string]string{
			"/to": "755 0:0", "/to/b": "644 0:0 B", "/to/s": "755 0:0", "/to/s/c": "644 0:0 C", "/to/l": "-> b",
		}},
		{"patterns", "COPY d/* a /to/", map[string]string{
			"/to": "755 0:0", "/to/b": "644 0:0 B", "/to/c": "644 0:0 C", "/to/l": "644 0:0 B", "/to/a": "755 0:0 A",
		}},
		{"owner and mode", "COPY --chown=5:6 --chmod=600 a /to", map[string]string{"/to": "600 5:6 A"}},
		{"owner and mode of a directory", "COPY --chown=5:6 --chmod=640 d /new/to", map[string]string{
			"/new": "755 5:6", "/new/to": "755 5:6", "/new/to/b": "640 5:6 B", "/new/to/l": "-> b",
			"/new/to/s": "640 5:6", "/new/to/s/c": "640 5:6 C",
		}},
		{"a private directory", "COPY private /to", map[string]string{"/to": "755 0:0", "/to/x": "700 0:0"}},
		{
			"names of the image",
			"COPY d/b /etc/passwd\nCOPY <<E /etc/passwd\nme:x:7:8::/:/x\nE\nCOPY --chown=me a /to",
			map[string]string{"/etc/passwd": "644 0:0 me:x:7:8::/:/x\n", "/to": "755 7:8 A"},
		},
		{"relative to the directory", "WORKDIR /w\nWORKDIR v\nCOPY a .", map[string]string{
			"/w": "755 0:0", "/w/v": "755 0:0", "/w/v/a": "755 0:0 A",
		}},
		{
			"variables",
			"ARG N=a\nENV D=/to\nCOPY $N ${D}/\nCOPY <<E \"$D/e\"\n$N ${D}\nE\nCOPY <<\"E\" /to/q\n$N\nE",
			map[string]string{
				"/to": "755 0:0", "/to/a": "755 0:0 A", "/to/e": "644 0:0 a /to\n", "/to/q": "644 0:0 $N\n",
			},
		},
		{"an archive", "ADD x.tar.gz /to", map[string]string{
			"/to": "755 0:0", "/to/in": "755 0:0", "/to/in/x": "644 0:0 X", "/to/in/y": "644 0:0 X",
		}},
		{"an archive as it is", "ADD a /to\nCOPY a /b", map[string]string{"/to": "755 0:0 A", "/b": "755 0:0 A"}},
		{"a stage", "COPY d /d\nFROM scratch\nCOPY --from=0 /d/s /d/b /to/\nCOPY --from=0 d/l /l", map[string]string{
			"/to": "755 0:0", "/to/b": "644 0:0 B", "/to/c": "644 0:0 C", "/l": "644 0:0 B",
		}},
		{"a stage as base", "COPY a /a\nFROM 0 AS last\nCOPY d/b /b", map[string]string{
			"/a": "755 0:0 A", "/b": "644 0:0 B",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			built := b.build(t, "FROM scratch\n"+test.dockerfile+"\n", nil)
			if diff := cmp.Diff(test.want, list(t, built)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	b := newBench(t)
	b.write(t, "a", "A")
	for _, test := range []struct{ dockerfile, want string }{
		{"", "Dockerfile:1: file with no instructions"},
		{"RUN true", "Dockerfile:1: no build stage"},
		{"FROM scratch\nNONSENSE", "Dockerfile:2: unknown instruction: NONSENSE"},
		{"FROM scratch\nRUN true\nONBUILD RUN true", "Dockerfile:3: ONBUILD is not supported"},
		{"FROM --platform=linux/s390x scratch", "Dockerfile:1: FROM --platform=linux/s390x is not supported"},
		{"FROM host", "Dockerfile:1: FROM host"},
		{"FROM $NONE", "Dockerfile:1: the base image \"$NONE\" is empty"},
		{"FROM scratch\nADD https://example.com/x /", "Dockerfile:2: ADD https://example.com/x: addresses"},
		{"FROM scratch\nCOPY --from=3 a /", "Dockerfile:2: --from=3 names no earlier stage"},
		{"FROM scratch\n\nCOPY ../x /", "Dockerfile:3: COPY ../x: the path leads out"},
		{"FROM scratch\nCOPY a/../../x /", "Dockerfile:2: COPY a/../../x: the path leads out"},
		{"FROM scratch\nARG X=..\nCOPY $X/x /", "Dockerfile:3: COPY $X/x /: ../x: the path leads out"},
		{"FROM scratch\nRUN --mount=type=ssh true", "Dockerfile:2: RUN --mount=type=ssh is not supported"},
		{"FROM scratch\nRUN --network=host true", "Dockerfile:2: RUN --network=host is not supported"},
		{"FROM scratch\nRUN --security=insecure true", "Dockerfile:2: RUN --security=insecure is not supported"},
		{"FROM scratch\nRUN --mount=type=secret,id=none,required true", "Dockerfile:2: RUN --mount=type=secret: the"},
		{"FROM scratch\nRUN --mount=type=bind,source=../x,target=/x true", "the source ../x leads out"},
		{"FROM scratch\nCOPY none /", "Dockerfile:2: COPY none /: none: there is no such file"},
		{"FROM scratch\nCOPY --chmod=u+x a /", "only octal modes"},
		{"FROM scratch\nCOPY --chown=nobody a /", "has no \"nobody\""},
		{"FROM scratch\nCOPY a /f\nCOPY a /f/g", "Dockerfile:3: COPY a /f/g: /f is no directory"},
		{"FROM scratch\nEXPOSE 99999", "Dockerfile:2: EXPOSE 99999: \"99999\" is no port"},
	} {
		_, err := b.try(t, test.dockerfile+"\n", nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, core.KindUsage) {
			t.Errorf("%q: %v", test.dockerfile, err)
		}
	}
	if len(b.runner.runs) != 0 {
		t.Errorf("%d commands ran", len(b.runner.runs))
	}
}

func TestHostileContext(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "up": "../../../../../../etc/passwd", "dir": outside, "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"absolute", "up", "dir", "dir/secret", "loop"} {
		if built, err := b.try(t, "FROM scratch\nCOPY "+source+" /x\n", nil); err == nil {
			t.Errorf("COPY %s: %v", source, list(t, built))
		} else if source != "loop" && !strings.Contains(err.Error(), "leads out of the build's directory") {
			t.Errorf("COPY %s: %v", source, err)
		}
	}
	// Below a directory a link is copied as a link.
	built := b.build(t, "FROM scratch\nCOPY . /x\n", nil)
	if got := list(t, built)["/x/absolute"]; got != "-> "+filepath.Join(outside, "secret") {
		t.Errorf("a link is %q", got)
	}
}

func TestHostileArchive(t *testing.T) {
	b := newBench(t)
	packed := func(data []byte) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(data)
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	bomb := func(size int64) string { // a gzip file may have several parts, and its compression takes long
		var header bytes.Buffer
		zeros := tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}
		if err := tar.NewWriter(&header).WriteHeader(&zeros); err != nil {
			t.Fatal(err)
		}
		return packed(header.Bytes()) + strings.Repeat(packed(make([]byte, 1<<20)), int(size>>20)+1)
	}
	for name, test := range map[string]struct {
		content, want string
		kind          core.Kind
	}{
		"up": {string(archive(file("../x", ""))), "\"../x\", which leads out", core.KindUsage},
		"link": {
			string(archive(tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../y"})), "leads out", core.KindUsage,
		},
		"whiteout": {string(archive(file(".wh.passwd", ""))), ".wh.passwd", core.KindUsage},
		"bomb":     {bomb(1100 << 20), "decompression bomb", core.KindExhausted},
		"xz":       {"\xfd7zXZ\x00more", "xz archives are not supported", core.KindUsage},
	} {
		b.write(t, name, test.content)
		_, err := b.try(t, "FROM scratch\nADD "+name+" /x/\n", nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.kind) ||
			!strings.Contains(err.Error(), "Dockerfile:2: ADD "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command may replace directories by links. A later COPY writes into the image all the same.
func TestHostileLayer(t *testing.T) {
	b := newBench(t)
	victim := t.TempDir()
	b.write(t, "a", "A")
	b.runner.layers["links"] = []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./app", Typeflag: tar.TypeSymlink, Linkname: victim, Mode: 0o777},
		{Name: "./up", Typeflag: tar.TypeSymlink, Linkname: "../../../../.." + victim, Mode: 0o777},
		{Name: "./loop", Typeflag: tar.TypeSymlink, Linkname: "loop", Mode: 0o777},
	}
	b.runner.layers["whiteout"] = []tar.Header{file("./.wh.app", "")}
	built := b.build(t, "FROM scratch\nCOPY a /app/\nRUN layer links\nCOPY a /app/\nCOPY a /up/b\n", nil)
	if entries, err := os.ReadDir(victim); err != nil || len(entries) != 0 {
		t.Fatalf("outside of the image: %v, %v", entries, err)
	}
	files := list(t, built)
	if files[victim+"/a"] != "644 0:0 A" || files[victim+"/b"] != "644 0:0 A" {
		t.Errorf("the image has %v", files)
	}
	for dockerfile, want := range map[string]string{
		"FROM scratch\nRUN layer links\nCOPY a /loop/x\n": "loop",
		"FROM scratch\nRUN layer whiteout\n":              "/.wh.app",
	} {
		if _, err := b.try(t, dockerfile, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", dockerfile, err)
		}
	}
}

func (b *bench) commands() []string {
	var all []string
	for _, run := range b.runner.runs {
		all = append(all, run.Argv[len(run.Argv)-1])
	}
	b.runner.runs = nil
	return all
}

func TestCache(t *testing.T) {
	b := newBench(t)
	b.write(t, "a", "A")
	const text = "FROM scratch\nRUN one\nCOPY a /a\nLABEL x=y\nARG V=1\nRUN two\n"
	expect := func(what string, want ...string) {
		t.Helper()
		if got := b.commands(); !slices.Equal(got, want) {
			t.Errorf("%s: %q ran, want %q", what, got, want)
		}
	}
	first := b.build(t, text, nil)
	expect("the first build", "one", "two")
	if again := b.build(t, text, nil); again.ID != first.ID {
		t.Error("the same build makes another image")
	}
	expect("the same build")
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(b.dir, "a"), now, now); err != nil {
		t.Fatal(err)
	}
	b.build(t, text, nil)
	expect("another time of a file")
	b.build(t, strings.Replace(text, "x=y", "x=z", 1), nil)
	expect("another label")
	b.write(t, "a", "B")
	b.build(t, text, nil)
	expect("another content", "two")
	b.build(t, text, func(o *build.Options) { o.Args = map[string]string{"V": "2"} })
	expect("another argument", "two")
	b.build(t, text, func(o *build.Options) { o.Args = map[string]string{"V": "2", "HTTP_PROXY": "http://proxy"} })
	expect("a proxy")
	_, err := b.try(t, strings.Replace(text, "RUN two", "RUN three\nRUN fail it", 1), nil)
	if err == nil || !strings.Contains(err.Error(), "Dockerfile:7: RUN fail it: exit code 7\nruns fail it") {
		t.Errorf("a failed step: %v", err)
	}
	expect("a failed build", "three", "fail it")
	b.build(t, strings.Replace(text, "RUN two", "RUN three", 1), nil)
	expect("after a failed build")
	b.build(t, text, func(o *build.Options) { o.NoCache = true })
	expect("without the cache", "one", "two")
	if err := b.Images.Remove(t.Context(), first.ID, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.write(t, "a", "A")
	if made := b.build(t, text, nil); made.ID != first.ID {
		t.Error("the layers make another image")
	}
	expect("with layers and without the image")
	// A damaged layer is found.
	layers, err := os.ReadDir(filepath.Join(b.Dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Images.Remove(t.Context(), first.ID, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		path := filepath.Join(b.Dir, "layers", l.Name())
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 0xff
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.try(t, text, nil); err == nil || b.Images.Has(first.ID) {
		t.Errorf("damaged layers were used: %v", err)
	}
}

func TestCacheOfAStage(t *testing.T) {
	b := newBench(t)
	b.runner.layers["x"] = []tar.Header{file("./x", "X")}
	text := "FROM scratch AS one\nENV A=1\nRUN layer x\nFROM scratch\nCOPY --from=one /x /\nRUN two\n"
	first := b.build(t, text, nil)
	b.commands()
	again := b.build(t, strings.Replace(text, "A=1", "A=2", 1), nil)
	if got := b.commands(); !slices.Equal(got, []string{"layer x"}) || again.ID != first.ID {
		t.Errorf("another stage with the same file: %q ran", got)
	}
	b.build(t, text+"FROM scratch\nRUN unneeded\n", func(o *build.Options) { o.Target = "1" })
	if got := b.commands(); len(got) != 0 {
		t.Errorf("%q ran for an earlier stage", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	b := newBench(t)
	b.CacheSize = 1
	b.build(t, "FROM scratch\nRUN one\n", nil)
	for _, dir := range []string{"layers", "steps", "work"} {
		if left, err := os.ReadDir(filepath.Join(b.Dir, dir)); err != nil || len(left) != 0 {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
}

func TestTwoBuilds(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	ids := make([]string, 4)
	for i := range ids {
		wg.Go(func() {
			built, err := b.try(t, "FROM scratch\nRUN one\nRUN two\n", nil)
			if err != nil {
				t.Error(err)
			}
			ids[i] = built.ID
		})
	}
	wg.Wait()
	if got := b.commands(); !slices.Equal(got, []string{"one", "two"}) || len(slices.Compact(ids)) != 1 {
		t.Errorf("%q ran, and made %q", got, ids)
	}
}

func TestConfiguration(t *testing.T) {
	b := newBench(t)
	built := b.build(t, `FROM scratch AS base
ENTRYPOINT ["old"]
CMD ["old"]
ENV A=1 B=$A
FROM base
ENV A=2 C="x $B"
ENV B=$A
WORKDIR /srv/app
USER dev
EXPOSE 80 53/udp 8000-8001
LABEL one=1 two="t w o"
VOLUME /data
STOPSIGNAL SIGINT
SHELL ["/bin/bash", "-ec"]
ENTRYPOINT run it
HEALTHCHECK --interval=5s CMD check
`, func(o *build.Options) { o.Ref = "app:1.0" })
	if built.Config.Healthcheck == nil || built.Config.Healthcheck.Interval != 5*time.Second {
		t.Errorf("the health check is %+v", built.Config.Healthcheck)
	}
	built.Config.Healthcheck = nil
	want := image.Config{
		Entrypoint: []string{"/bin/bash", "-ec", "run it"}, Env: []string{"A=2", "C=x ", "B=2"}, User: "dev",
		WorkingDir: "/srv/app", StopSignal: "SIGINT", ExposedPorts: []string{"53/udp", "80/tcp", "8000/tcp", "8001/tcp"},
		Labels: map[string]string{"one": "1", "two": "t w o"}, Volumes: []string{"/data"},
		Shell: []string{"/bin/bash", "-ec"},
	}
	if diff := cmp.Diff(want, built.Config); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(built.Refs, []string{"app:1.0"}) {
		t.Errorf("its names are %q", built.Refs)
	}
}

func TestRunCommand(t *testing.T) {
	b := newBench(t)
	b.build(t, `FROM scratch
ARG V=1
ENV E=2
WORKDIR /srv/app
USER me
RUN shell $V
RUN ["exec", "$V"]
RUN --network=none <<END
a script
END
RUN <<PROGRAM
#!/bin/sh
program
PROGRAM
`, nil)
	var got []string
	for _, run := range b.runner.runs {
		got = append(got, fmt.Sprintf(
			"%q %q %s %s %v %v", run.Argv, run.Env, run.User, run.Workdir, run.Offline, run.Scripts,
		))
	}
	want := []string{
		`["/bin/sh" "-c" "shell $V"] ["V=1" "E=2"] me /srv/app false map[]`,
		`["exec" "$V"] ["V=1" "E=2"] me /srv/app false map[]`,
		`["/bin/sh" "-c" "a script\n"] ["V=1" "E=2"] me /srv/app true map[]`,
		"[\"/dev/pipes/PROGRAM\"] [\"V=1\" \"E=2\"] me /srv/app false map[PROGRAM:#!/bin/sh\nprogram\n]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMounts(t *testing.T) {
	const secret = "correct horse battery staple"
	b := newBench(t)
	b.write(t, "d/f", "F")
	b.runner.layers["mounted"] = []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./run/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./run/secrets/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("./run/secrets/key", "stub"),
		{Name: "./bound/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("./bound/written", "dropped"),
		{Name: "./cache/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./cache/deep/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("./cache/kept", "kept"), file("./new", "new"),
	}
	o := func(o *build.Options) { o.Secrets = map[string]core.SecretValue{"key": core.NewSecretValue(secret)} }
	text := "FROM scratch\nRUN --mount=type=secret,id=key --mount=type=secret,id=key,env=KEY " +
		"--mount=type=bind,source=d,target=/bound --mount=type=cache,target=/cache/deep,sharing=locked layer mounted\n"
	built := b.build(t, text, o)
	want := map[string]string{"/cache": "755 0:0", "/cache/kept": "644 0:0 kept", "/new": "644 0:0 new"}
	if diff := cmp.Diff(want, list(t, built)); diff != "" {
		t.Error(diff)
	}
	run := b.runner.runs[0]
	if len(run.SecretFiles) != 1 || run.SecretFiles[0].Path != "/run/secrets/key" ||
		run.Secrets["KEY"].Reveal() != secret || len(run.Caches) != 1 || run.Caches[0].Target != "/cache/deep" {
		t.Errorf("the command got %+v", run)
	}
	b.commands()
	b.build(t, text, func(o *build.Options) {
		o.Secrets = map[string]core.SecretValue{"key": core.NewSecretValue("other")}
	})
	if got := b.commands(); len(got) != 0 {
		t.Errorf("with another secret %q ran", got)
	}
	b.build(t, text, nil)
	if got := b.commands(); len(got) != 0 {
		t.Errorf("without the secret %q ran", got)
	}
	b.write(t, "d/f", "G")
	b.build(t, text, o)
	if got := b.commands(); len(got) != 1 {
		t.Errorf("with another content of a mount %q ran", got)
	}
	state := filepath.Dir(b.Dir)
	err := filepath.WalkDir(state, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if z, zErr := zstd.NewReader(bytes.NewReader(raw)); zErr == nil {
			plain, _ := io.ReadAll(z)
			raw = append(raw, plain...)
			z.Close()
		}
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What a killed build leaves is removed by the next one.
func TestLeftovers(t *testing.T) {
	b := newBench(t)
	b.build(t, "FROM scratch\nRUN one\n", nil)
	left := filepath.Join(b.Dir, "work", "KILLED")
	if err := os.MkdirAll(filepath.Join(left, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if found, err := build.Leftovers(b.Dir); err != nil || !slices.Equal(found, []string{left}) {
		t.Errorf("%v, %v", found, err)
	}
	b.build(t, "FROM scratch\nRUN one\n", nil)
	if found, err := build.Leftovers(b.Dir); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func FuzzDockerfile(f *testing.F) {
	b := newBench(f)
	b.write(f, "a", "A")
	f.Add("FROM scratch AS x\nARG A=1\nCOPY --chown=1:2 a <<E /to/\n$A\nE\nRUN --mount=type=bind,target=/x <<E\nx\nE\n")
	f.Add("FROM x\nENV a=b\nEXPOSE 1-3\nHEALTHCHECK NONE\nUSER ${A:-x}\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = b.try(t, text, nil)
	})
}
