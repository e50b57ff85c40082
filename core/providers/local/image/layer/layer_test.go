package layer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"gvisor.dev/gvisor/pkg/erofs"
	"gvisor.dev/gvisor/pkg/safemem"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// archive returns a tar archive.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.PAXRecords["content"]
		h.PAXRecords = nil
		if content != "" {
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"content": content}}
}

func dir(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }

func symlink(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}

func hardlink(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
}

// build applies layers and returns the image file.
func build(t testing.TB, limits layer.Limits, layers ...[]byte) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	meter := layer.NewMeter(limits)
	tree := layer.New(out, limits, meter)
	for _, l := range layers {
		plain, err := layer.Decompress(meter.Packed(bytes.NewReader(l)))
		if err != nil {
			return "", err
		}
		if err := tree.Apply(t.Context(), meter.Plain(plain)); err != nil {
			return "", err
		}
		_ = plain.Close()
	}
	return out.Name(), tree.Finish([16]byte{1})
}

// read reads an image as gVisor does. It returns a line for each path; "=" follows the content, "#" the inode's number
// where it has several names.
func read(t testing.TB, image string) map[string]string {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	from, err := erofs.OpenImage(f)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	all := map[string]string{}
	var walk func(path string, nid uint64)
	walk = func(path string, nid uint64) {
		inode, err := from.Inode(nid)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text := fmt.Sprintf("%o %d:%d %d", inode.Mode(), inode.UID(), inode.GID(), inode.Mtime())
		switch {
		case inode.IsDir():
			dirs := uint32(2)
			err := inode.IterDirents(func(name string, typ uint8, child uint64) error {
				if found, err := inode.Lookup(name); err != nil || found != child {
					return fmt.Errorf("lookup of %q: %w", name, err)
				}
				if name == "." || name == ".." {
					return nil
				}
				if typ == 2 {
					dirs++
				}
				walk(path+"/"+name, child)
				return nil
			})
			if err != nil || inode.Nlink() != dirs {
				t.Fatalf("%s: %v, %d links instead of %d", path, err, inode.Nlink(), dirs)
			}
		case inode.IsSymlink():
			to, err := inode.Readlink()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			text += " -> " + to
		case inode.IsRegular():
			if _, err := inode.DataOffset(); err != nil {
				t.Fatalf("%s cannot be mapped: %v", path, err)
			}
			data, err := inode.Data()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			content := make([]byte, data.NumBytes())
			if _, err := safemem.CopySeq(safemem.BlockSeqOf(safemem.BlockFromSafeSlice(content)), data); err != nil {
				t.Fatal(err)
			}
			text += " = " + string(content)
			if inode.Nlink() > 1 {
				text += fmt.Sprintf(" # %d, %d links", nid, inode.Nlink())
			}
		}
		all[path] = text
	}
	walk("", from.RootNid())
	return all
}

// check runs fsck.erofs on an image, if it is installed.
func check(t testing.TB, image string) {
	t.Helper()
	program, err := exec.LookPath("fsck.erofs")
	if err != nil {
		t.Log("fsck.erofs is not installed: only gVisor's reader has checked the image")
		return
	}
	if out, err := exec.CommandContext(t.Context(), program, image).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v\n%s", err, out)
	}
}

// TestLayers checks the result of several layers: the paths that remain, with their content or target.
func TestLayers(t *testing.T) {
	long := strings.Repeat("n", 255)
	for _, test := range []struct {
		name   string
		layers [][]tar.Header
		want   string
	}{
		{"a file replaces a file", [][]tar.Header{{file("a", "1")}, {file("a", "2")}}, "/a=2"},
		{"the last of two in a layer holds", [][]tar.Header{{file("a", "1"), file("./a", "2")}}, "/a=2"},
		{"names", [][]tar.Header{{file("./a//b/./c", "1"), file("/d", "2")}}, "/a/b/c=1 /d=2"},
		{"long names", [][]tar.Header{{file(long+"/"+long+"/f", "1")}}, "/" + long + "/" + long + "/f=1"},
		{"a whiteout", [][]tar.Header{{file("d/a", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, "/d/b=1"},
		{"a whiteout of a directory", [][]tar.Header{{file("d/a/b", "1"), dir("e")}, {file(".wh.d", "")}}, "/e/"},
		{"a whiteout of nothing", [][]tar.Header{{dir("e")}, {file("e/.wh.d", "")}}, "/e/"},
		{"a whiteout spares its layer", [][]tar.Header{
			{file("d/a", "1"), file("d/b", "1")}, {file("d/a", "2"), file("d/.wh.a", ""), file(".wh.d", "")},
		}, "/d/a=2"},
		{
			"a whiteout before its layer's file",
			[][]tar.Header{{file("a/b", "1")}, {file(".wh.a", ""), file("a/c", "2")}},
			"/a/c=2",
		},
		{
			"whiteouts in the lowest layer",
			[][]tar.Header{{file("a", "1"), file(".wh.a", ""), file(".wh..wh..opq", "")}},
			"/a=1",
		},
		{"an opaque directory", [][]tar.Header{
			{file("d/a", "1"), file("d/s/b", "1")}, {file("d/c", "2"), file("d/.wh..wh..opq", ""), file("d/s/x", "2")},
		}, "/d/c=2 /d/s/x=2"},
		{"an opaque directory in three layers", [][]tar.Header{
			{file("d/a", "1")}, {file("d/b", "2")}, {file("d/.wh..wh..opq", ""), file("d/c", "3")},
		}, "/d/c=3"},
		{"names of aufs", [][]tar.Header{{file(".wh..wh.plnk", ""), file(".wh..wh.aufs", ""), file("a", "1")}}, "/a=1"},
		{"a file replaces a directory", [][]tar.Header{{file("a/b/c", "1")}, {file("a", "2")}}, "/a=2"},
		{"a directory replaces a file", [][]tar.Header{{file("a", "1")}, {dir("a/")}}, "/a/"},
		{
			"a directory replaces a link",
			[][]tar.Header{{dir("b"), symlink("a", "b")}, {dir("a"), file("a/f", "1")}},
			"/a/f=1 /b/",
		},
		{
			"through a link",
			[][]tar.Header{{dir("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/f", "1")}},
			"/lib->usr/lib /usr/lib/f=1",
		},
		{
			"through an absolute link",
			[][]tar.Header{{dir("run"), symlink("var/run", "/run")}, {file("var/run/ko/f", "1")}},
			"/run/ko/f=1 /var/run->/run",
		},
		{
			"through a link that leads out",
			[][]tar.Header{{symlink("a", "../../../etc"), file("a/f", "1")}},
			"/a->../../../etc /etc/f=1",
		},
		{"a whiteout through a link", [][]tar.Header{
			{file("usr/lib/f", "1"), symlink("lib", "usr/lib")}, {file("lib/.wh.f", "")},
		}, "/lib->usr/lib /usr/lib/"},
		{
			"a hard link survives its first name",
			[][]tar.Header{{file("a", "1"), hardlink("b", "a")}, {file(".wh.a", "")}},
			"/b=1",
		},
		{
			"a hard link to a lower layer",
			[][]tar.Header{{file("a", "1")}, {hardlink("d/b", "./a"), file(".wh.a", "")}},
			"/d/b=1",
		},
		{"a hard link to itself", [][]tar.Header{{file("a", "1"), hardlink("a", "a")}}, "/a=1"},
		{"a hard link to a symbolic link", [][]tar.Header{{symlink("a", "x"), hardlink("b", "a")}}, "/a->x /b->x"},
		{
			"a replaced name of a hard link",
			[][]tar.Header{{file("a", "1"), hardlink("b", "a")}, {file("b", "2")}},
			"/a=1 /b=2",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range test.layers {
				layers = append(layers, archive(t, l...))
			}
			image, err := build(t, layer.DefaultLimits(), layers...)
			if err != nil {
				t.Fatal(err)
			}
			check(t, image)
			if diff := cmp.Diff(test.want, summary(read(t, image))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// summary names files, links and empty directories in order.
func summary(all map[string]string) string {
	var parts []string
	for _, path := range sorted(all) {
		text := all[path]
		if _, content, ok := strings.Cut(text, " = "); ok {
			content, _, _ = strings.Cut(content, " # ")
			parts = append(parts, path+"="+content)
		} else if _, to, ok := strings.Cut(text, " -> "); ok {
			parts = append(parts, path+"->"+to)
		} else if path != "" && !hasBelow(all, path) {
			parts = append(parts, path+"/")
		}
	}
	return strings.Join(parts, " ")
}

func hasBelow(all map[string]string, path string) bool {
	for other := range all {
		if strings.HasPrefix(other, path+"/") {
			return true
		}
	}
	return false
}

// TestAttributes checks all attributes of an entry.
func TestAttributes(t *testing.T) {
	at := time.Unix(1234567890, 5)
	old := file("old", "")
	old.ModTime = time.Unix(-5, 0)
	setuid := file("bin/su", "x")
	setuid.Mode, setuid.Uid, setuid.Gid, setuid.ModTime = 0o6755, 65535, 65534, at
	tmp := dir("tmp")
	tmp.Mode = 0o1777
	root := dir("./")
	root.Mode, root.Uid = 0o700, 7
	far := symlink("link", strings.Repeat("t", 4095))
	null := tar.Header{Name: "null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3}
	disk := tar.Header{Name: "disk", Typeflag: tar.TypeBlock, Mode: 0o600, Devmajor: 259, Devminor: 70000}
	fifo := tar.Header{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o600}
	image, err := build(t, layer.DefaultLimits(), archive(t, root, old, setuid, hardlink("bin/sudo", "bin/su"),
		tmp, far, null, disk, fifo))
	if err != nil {
		t.Fatal(err)
	}
	check(t, image)
	all := read(t, image)
	for path, want := range map[string]string{
		"": "40700 7:0 0", "/old": "100644 0:0 0 = ", "/tmp": "41777 0:0 0", "/null": "20666 0:0 0",
		"/disk": "60600 0:0 0", "/fifo": "10600 0:0 0", "/bin": "40755 0:0 0",
		"/link": "120644 0:0 0 -> " + strings.Repeat("t", 4095),
	} {
		if all[path] != want {
			t.Errorf("%q is %q, not %q", path, all[path], want)
		}
	}
	su, sudo := all["/bin/su"], all["/bin/sudo"]
	if !strings.HasPrefix(su, "106755 65535:65534 1234567890 = x #") || su != sudo || !strings.HasSuffix(su, ", 2 links") {
		t.Errorf("hard links are %q and %q", su, sudo)
	}
}

// TestLargeDirectory checks a directory of many blocks, and many small files.
func TestLargeDirectory(t *testing.T) {
	var entries []tar.Header
	for i := range 5000 {
		entries = append(entries, file(fmt.Sprintf("d/%d-%s", i, strings.Repeat("x", i%200)), fmt.Sprint(i)))
	}
	image, err := build(t, layer.DefaultLimits(), archive(t, entries...))
	if err != nil {
		t.Fatal(err)
	}
	check(t, image)
	all := read(t, image)
	for _, e := range entries {
		if got := all["/"+e.Name]; !strings.HasSuffix(got, " = "+e.PAXRecords["content"]) {
			t.Fatalf("%s is %q", e.Name, got)
		}
	}
}

// TestHoles checks that zeros and replaced files use no disk space, and that the image file is reproducible.
func TestHoles(t *testing.T) {
	zeros := strings.Repeat("\x00", 8<<20)
	layers := [][]byte{
		archive(t, file("a", "begin"+zeros+"end"), file("b", strings.Repeat("replaced", 1<<20))),
		archive(t, file("b", "new")),
	}
	image, err := build(t, layer.DefaultLimits(), layers...)
	if err != nil {
		t.Fatal(err)
	}
	check(t, image)
	if all := read(t, image); !strings.HasSuffix(all["/a"], " = begin"+zeros+"end") {
		t.Error("the content of a file with zeros has changed")
	}
	again, err := build(t, layer.DefaultLimits(), layers...)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := os.ReadFile(image)
	other, _ := os.ReadFile(again)
	if !bytes.Equal(one, other) {
		t.Error("the same layers make different files")
	}
	if room := blocks(t, image); room > 1<<20 {
		t.Errorf("the file takes %d bytes of the disk", room)
	}
}

// TestSparse checks a file whose archive has only a part of it.
func TestSparse(t *testing.T) {
	// A GNU tar archive of a file with 3 MiB of zeros, "x", and 1 MiB of zeros: "tar --sparse --format=gnu".
	for _, format := range []string{"gnu", "posix"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, "sparse"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte("x"), 3<<20)
			if err := errors.Join(err, f.Truncate(4<<20), f.Close()); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "tar", "--sparse", "--format="+format, "-C", dir, "-cf", "-",
				"sparse").Output()
			if err != nil {
				t.Fatal(err)
			}
			image, err := build(t, layer.DefaultLimits(), out)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]byte, 4<<20)
			want[3<<20] = 'x'
			if !strings.HasSuffix(read(t, image)["/sparse"], " = "+string(want)) {
				t.Error("the content has changed")
			}
			limits := layer.DefaultLimits()
			limits.Content = 2 << 20
			if _, err := build(t, limits, out); !errors.Is(err, core.KindExhausted) || !strings.Contains(err.Error(), "sparse") {
				t.Errorf("a file larger than the limit: %v", err)
			}
		})
	}
}

// TestRefused checks that each hostile layer is refused with the name of the entry.
func TestRefused(t *testing.T) {
	owner := file("owner", "")
	owner.Uid = -5
	device := tar.Header{Name: "device", Typeflag: tar.TypeChar, Devmajor: 5000}
	var loop []tar.Header
	for i := range 50 {
		loop = append(loop, symlink(fmt.Sprintf("l%d", i), fmt.Sprintf("l%d", i+1)))
	}
	for _, test := range []struct {
		name    string
		entries []tar.Header
		kind    core.Kind
		entry   string
	}{
		{"up", []tar.Header{file("../etc/passwd", "")}, core.KindUsage, "../etc/passwd"},
		{"up inside", []tar.Header{file("a/../../b", "")}, core.KindUsage, "a/../../b"},
		{"a long name", []tar.Header{file("d/"+strings.Repeat("n", 256), "")}, core.KindUsage, "d/nnn"},
		{"a long path", []tar.Header{file(strings.Repeat("n/", 2048)+"f", "")}, core.KindUsage, "n/n/"},
		{"below a file", []tar.Header{file("f", ""), file("f/g", "")}, core.KindUsage, "f/g"},
		{"a loop of links", []tar.Header{symlink("a", "b"), symlink("b", "a"), file("a/f", "")}, core.KindUsage, "a/f"},
		{"too many links", append(loop, file("l0/f", "")), core.KindUsage, "l0/f"},
		{"a link to nothing", []tar.Header{hardlink("h", "nothing")}, core.KindUsage, "h"},
		{"a link to a directory", []tar.Header{dir("d"), hardlink("h", "d")}, core.KindUsage, "h"},
		{"a link that leads out", []tar.Header{hardlink("h", "../../etc/shadow")}, core.KindUsage, "h"},
		{"a link over its target", []tar.Header{file("over/f", "1"), hardlink("over", "over/f")}, core.KindUsage, "over"},
		{"no target", []tar.Header{symlink("l", "")}, core.KindUsage, "l"},
		{"a whiteout of nothing", []tar.Header{file("d/.wh.", "")}, core.KindUsage, "d/.wh."},
		{"a whiteout of the parent", []tar.Header{file("d/.wh...", "")}, core.KindUsage, "d/.wh..."},
		{"a file as the root", []tar.Header{symlink("./", "a")}, core.KindUsage, "./"},
		{"an owner", []tar.Header{owner}, core.KindUsage, "owner"},
		{"a device", []tar.Header{device}, core.KindUsage, "device"},
		{
			"many files",
			[]tar.Header{file("1", ""), file("2", ""), file("3/4/5/6/7/8/9/10/11/12", "")},
			core.KindExhausted, "3/4/5",
		},
		{"much content", []tar.Header{file("1", ""), file("big", strings.Repeat("x", 2<<20))}, core.KindExhausted, "big"},
	} {
		t.Run(test.name, func(t *testing.T) {
			limits := layer.DefaultLimits()
			limits.Content = 1 << 20
			if test.name == "many files" {
				limits.Inodes = 10
			}
			_, err := build(t, limits, archive(t, test.entries...))
			if !errors.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.entry) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestBombs checks layers that are larger than they look.
func TestBombs(t *testing.T) {
	limits := layer.Limits{Inodes: 100, Headers: 100, Names: 1 << 20, Content: 1 << 40, Ratio: 200, Free: 1 << 20}
	var zip, z bytes.Buffer
	g := gzip.NewWriter(&zip)
	s, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, s} {
		if _, err := w.Write(archive(t, file("zeros", strings.Repeat("\x00", 64<<20)))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, bomb := range map[string][]byte{"gzip": zip.Bytes(), "zstd": z.Bytes()} {
		if _, err := build(t, limits, bomb); !errors.Is(err, core.KindExhausted) || !strings.Contains(err.Error(), "zeros") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := build(t, layer.DefaultLimits(), zip.Bytes(), z.Bytes()); err != nil {
		t.Errorf("64 MiB of zeros are refused: %v", err)
	}
	many := make([]tar.Header, 101)
	for i := range many {
		many[i] = file("same", "")
	}
	if _, err := build(t, limits, archive(t, many...)); !errors.Is(err, core.KindExhausted) {
		t.Errorf("many entries of one name: %v", err)
	}
	limits.Names = 1000
	many = many[:2]
	many[0], many[1] = symlink("l", strings.Repeat("./", 300)), file("l/f", "")
	if _, err := build(t, limits, archive(t, many...)); !errors.Is(err, core.KindExhausted) {
		t.Errorf("long ways through links: %v", err)
	}
}

// TestDamaged checks that incomplete and invalid layers are refused, and that cancellation ends Apply.
func TestDamaged(t *testing.T) {
	whole := archive(t, file("first", "1"), file("second", strings.Repeat("x", 100<<10)))
	for name, bad := range map[string][]byte{
		"short": whole[:len(whole)/2], "text": bytes.Repeat([]byte("no archive "), 100), "gzip": {0x1f, 0x8b, 8, 0},
	} {
		if _, err := build(t, layer.DefaultLimits(), bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if image, err := build(t, layer.DefaultLimits(), nil); err != nil || len(read(t, image)) != 1 {
		t.Errorf("an empty layer: %v", err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	limits := layer.DefaultLimits()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = layer.New(out, limits, layer.NewMeter(limits)).Apply(ctx, bytes.NewReader(whole))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// FuzzApply checks that no input leads to a panic, and that gVisor can read each accepted image.
func FuzzApply(f *testing.F) {
	for _, l := range [][]tar.Header{
		{file("a/b", "1"), hardlink("c", "a/b"), symlink("d", "/a"), file("d/e", "2"), file("a/.wh.b", "")},
		{dir("d"), file("d/.wh..wh..opq", ""), file(".wh.d", ""), file("/d/x", strings.Repeat("x", 5000))},
	} {
		f.Add(archive(f, l...), archive(f, l[1:]...))
	}
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		limits := layer.Limits{Inodes: 1000, Headers: 2000, Names: 1 << 20, Content: 16 << 20, Ratio: 1000, Free: 16 << 20}
		image, err := build(t, limits, lower, upper)
		if err == nil {
			read(t, image)
		}
	})
}

// prepared applies a layer and calls Prepare.
func prepared(t *testing.T, workdir string, entries ...tar.Header) (map[string]string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	tree := layer.New(out, layer.DefaultLimits(), layer.NewMeter(layer.DefaultLimits()))
	if err := tree.Apply(t.Context(), bytes.NewReader(archive(t, entries...))); err != nil {
		t.Fatal(err)
	}
	if err := tree.Prepare(workdir); err != nil {
		return nil, err
	}
	if err := tree.Finish([16]byte{1}); err != nil {
		t.Fatal(err)
	}
	return read(t, out.Name()), nil
}

func TestPrepare(t *testing.T) {
	for what, test := range map[string]struct {
		workdir string
		entries []tar.Header
		want    map[string]string // "-" is absent
	}{
		"empty": {"/srv/app", nil, map[string]string{
			"/dev": "40755", "/proc": "40755", "/sys": "40755", "/tmp": "41777", "/tmp/.X11-unix": "41777", "/srv/app": "40755",
			"/etc/hosts": "100644", "/etc/hostname": "100644", "/etc/resolv.conf": "100644",
		}},
		"own files": {"", []tar.Header{
			file("etc/hosts", "own"), symlink("etc/resolv.conf", "../run/missing"), file("tmp/x", "y"),
		}, map[string]string{
			"/etc/hosts": "100644 0:0 0 = own", "/etc/resolv.conf": "100644", "/tmp": "40755", "/tmp/.X11-unix": "-",
		}},
		"links": {"/srv/sub", []tar.Header{
			dir("data"), symlink("srv", "/data"), symlink("etc", "/data"), symlink("tmp", "data"),
		}, map[string]string{
			"/data/sub": "40755", "/data/hosts": "100644", "/srv": "120644 0:0 0 -> /data", "/data/.X11-unix": "-",
		}},
	} {
		have, err := prepared(t, test.workdir, test.entries...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for path, want := range test.want {
			if got, found := have[path]; want == "-" && found || want != "-" && !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q, want %q", what, path, got, want)
			}
		}
	}
	for _, name := range []string{"dev", "proc", "sys"} {
		for _, entry := range []tar.Header{symlink(name, "root"), file(name, "x")} {
			if _, err := prepared(t, "", entry); !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "/"+name) {
				t.Errorf("%+v: %v", entry, err)
			}
		}
	}
	if _, err := prepared(t, "/../up"); !errors.Is(err, core.KindUsage) {
		t.Errorf("a working directory outside: %v", err)
	}
}
