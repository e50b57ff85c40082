package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
)

// guestDir is a sandbox whose files are a directory of this machine, seen at /srv/app.
type guestDir struct {
	Files
	dir     string
	archive func() io.Reader // replaces the archive of an export
	changes []core.Change
	last    origin.Origin
}

const guestTarget = "/srv/app"

func (g *guestDir) at(name string) string {
	return filepath.Join(g.dir, strings.TrimPrefix(name, guestTarget))
}

func (g *guestDir) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	info, err := os.Lstat(g.at(name))
	if err != nil {
		return core.FileInfo{}, core.Errorf(core.KindNotFound, "stat", name, "there is no file")
	}
	found := core.FileInfo{Path: name, Mode: info.Mode(), Size: info.Size()}
	if info.Mode()&fs.ModeSymlink != 0 {
		found.Link, err = os.Readlink(g.at(name))
	}
	return found, err
}

func (g *guestDir) ReadFile(_ context.Context, _, name string) (io.ReadCloser, error) {
	return os.Open(g.at(name))
}

func (g *guestDir) Export(_ context.Context, _, name string) (io.ReadCloser, error) {
	if g.archive != nil {
		return io.NopCloser(g.archive()), nil
	}
	if _, err := os.Lstat(g.at(name)); err != nil {
		return nil, core.Errorf(core.KindNotFound, "export", name, "there is no file")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(g.at(name), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		link, _ := os.Readlink(file) // "" for files that are no links
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(g.at(name), file)
		header.Name = path.Join(path.Base(name), rest)
		if err = errors.Join(err, w.WriteHeader(header)); err != nil || !info.Mode().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	return io.NopCloser(&b), errors.Join(err, w.Close())
}

func (g *guestDir) Import(_ context.Context, _, _ string, archive io.Reader, _ core.ImportOptions) error {
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, archive)
			return err
		}
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(header.Name, "/")
		name, mode := filepath.Join(g.dir, rest), header.FileInfo().Mode()
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, mode.Perm())
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, name)
		default:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, mode.Perm())
			}
		}
		if err != nil {
			return err
		}
	}
}

func (g *guestDir) Diff(context.Context, string) ([]core.Change, error) { return g.changes, nil }

func (g *guestDir) RecordOrigin(_ context.Context, _ string, o origin.Origin) error {
	g.last = o
	return nil
}

// writeTree writes files. A text that begins with "-> " is a link.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if link, is := strings.CutPrefix(text, "-> "); is {
			err = errors.Join(err, os.Symlink(link, file))
		} else {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// listTree is the reverse of writeTree.
func listTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			link, err := os.Readlink(file)
			files[name] = "-> " + link
			return err
		}
		text, err := os.ReadFile(file)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// pushedTree pushes files into a new sandbox.
func pushedTree(t *testing.T, files map[string]string) (host string, guest *guestDir) {
	t.Helper()
	host, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	host = filepath.Join(host, "src")
	writeTree(t, host, files)
	guest = &guestDir{dir: filepath.Join(t.TempDir(), "missing")}
	_, err = Copy(t.Context(), guest, Request{From: Endpoint{"", host}, To: Endpoint{"box", guestTarget}})
	if err != nil {
		t.Fatal(err)
	}
	if guest.last.Source != host || guest.last.Target != guestTarget {
		t.Fatalf("the push was not recorded: %+v", guest.last)
	}
	return host, guest
}

func review(t *testing.T, guest *guestDir, change func(*ReviewRequest)) (*Review, error) {
	t.Helper()
	request := ReviewRequest{Sandbox: "box", Origin: guest.last, Content: true}
	if change != nil {
		change(&request)
	}
	r, err := NewReview(t.Context(), guest, request)
	if err == nil {
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return r, err
}

func found(r *Review) map[string]string {
	changes := map[string]string{}
	for _, d := range r.Changes {
		changes[d.Path] = d.Kind
		for _, why := range []string{d.Conflict, d.Refused} {
			if why != "" {
				changes[d.Path] += ": " + why
			}
		}
	}
	return changes
}

func left(a Applied) map[string]string {
	names := map[string]string{}
	for _, f := range a.Left {
		names[f.Path] = f.Why
	}
	return names
}

func originals() map[string]string {
	return map[string]string{
		"kept": "same", "changed": "one\n", "gone": "x", "dir/a": "a", "dir/b": "b", "type": "file", "link": "-> kept",
		"touched": "here\n", ".git/config": "mine",
	}
}

// guestChanges changes the files of originals in the sandbox.
func guestChanges(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"gone", "dir", "type", "link"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	writeTree(t, dir, map[string]string{
		"changed": "two\n", "new/deep": "n", "type/file": "now a directory", "link": "-> changed", "touched": "there\n",
		".git/config": "hack",
	})
}

func TestReviewAndApply(t *testing.T) {
	host, guest := pushedTree(t, originals())
	if r, err := review(t, guest, nil); err != nil || len(r.Changes) != 0 {
		t.Fatalf("a fresh push differs: %+v, %v", r, err)
	}
	guestChanges(t, guest.dir)
	if err := os.WriteFile(filepath.Join(host, "touched"), []byte("elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := review(t, guest, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"changed": Modified, "gone": Deleted, "dir": Deleted, "dir/a": Deleted, "dir/b": Deleted, "type": Modified,
		"type/file": Added, "link": Modified, "new": Added, "new/deep": Added,
		"touched": Modified + ": it was changed on this machine",
	}
	if diff := cmp.Diff(want, found(r)); diff != "" {
		t.Fatalf("want -, have +:\n%s", diff)
	}
	// Apply ignores changes after the review.
	writeTree(t, guest.dir, map[string]string{"changed": "three\n"})
	result, err := r.Apply(ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"touched": "it was changed on this machine"}, left(result)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	applied := map[string]string{
		"kept": "same", "changed": "two\n", "new/deep": "n", "type/file": "now a directory", "link": "-> changed",
		"touched": "elsewhere\n", ".git/config": "mine",
	}
	if diff := cmp.Diff(applied, listTree(t, host)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	r, err = review(t, guest, func(request *ReviewRequest) { request.IncludeGit = true })
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]string{
		"changed": Modified, "touched": Modified + ": it was changed on this machine", ".git/config": Modified,
	}
	if diff := cmp.Diff(want, found(r)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	if result, err := r.Apply(ApplyOptions{Force: true}); err != nil || len(result.Left) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	applied["changed"], applied["touched"], applied[".git/config"] = "three\n", "there\n", "hack"
	if diff := cmp.Diff(applied, listTree(t, host)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

func TestReviewOfPaths(t *testing.T) {
	_, guest := pushedTree(t, originals())
	guestChanges(t, guest.dir)
	r, err := review(t, guest, func(request *ReviewRequest) { request.Paths = []string{"dir", "new"} })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dir": Deleted, "dir/a": Deleted, "dir/b": Deleted, "new": Added, "new/deep": Added}
	if diff := cmp.Diff(want, found(r)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

// TestReviewConflicts has every way in which this machine's files can change after the push.
func TestReviewConflicts(t *testing.T) {
	host, guest := pushedTree(t, originals())
	guestChanges(t, guest.dir)
	writeTree(t, host, map[string]string{"new/deep": "mine", "dir/c": "mine"})
	for _, name := range []string{"changed", "link"} {
		if err := os.Remove(filepath.Join(host, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("type", filepath.Join(host, "link")); err != nil {
		t.Fatal(err)
	}
	before := listTree(t, host)
	r, err := review(t, guest, func(request *ReviewRequest) {
		request.Paths = []string{"changed", "link", "new", "dir"}
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Apply(ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"changed": "it was deleted on this machine", "link": "it was changed on this machine",
		"new/deep": "it was made on this machine, too", "dir/c": "it was made on this machine, too",
		"dir": "the directory is not empty on this machine",
	}
	if diff := cmp.Diff(want, left(result)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	delete(before, "dir/a")
	delete(before, "dir/b")
	if diff := cmp.Diff(before, listTree(t, host)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

// TestApplyChangesMeanwhile changes this machine between the review and its use.
func TestApplyChangesMeanwhile(t *testing.T) {
	host, guest := pushedTree(t, originals())
	writeTree(t, guest.dir, map[string]string{"changed": "two\n", "dir/a": "new", "dir/made": "new"})
	r, err := review(t, guest, nil)
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	writeTree(t, outside, map[string]string{"a": "a", "changed": "outside"})
	if err := errors.Join(
		os.RemoveAll(filepath.Join(host, "dir")), os.Symlink(outside, filepath.Join(host, "dir")),
		os.Remove(filepath.Join(host, "changed")),
		os.Symlink(filepath.Join(outside, "changed"), filepath.Join(host, "changed")),
	); err != nil {
		t.Fatal(err)
	}
	result, err := r.Apply(ApplyOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"changed":  "it changed on this machine meanwhile",
		"dir/a":    "the directory above it is not a directory on this machine",
		"dir/made": "the directory above it is not a directory on this machine",
	}
	if diff := cmp.Diff(want, left(result)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "a", "changed": "outside"}, listTree(t, outside)); diff != "" {
		t.Errorf("outside of the directory: %s", diff)
	}
}

// TestReviewReplacedDirectory replaces the pushed directory by a link.
func TestReviewReplacedDirectory(t *testing.T) {
	host, guest := pushedTree(t, originals())
	if err := errors.Join(os.Rename(host, host+".old"), os.Symlink(t.TempDir(), host)); err != nil {
		t.Fatal(err)
	}
	if _, err := review(t, guest, nil); !errors.Is(err, core.KindConflict) {
		t.Errorf("%v", err)
	}
}

// TestReviewOfAHostileSandbox has archives that no file system makes, and files that cannot be written.
func TestReviewOfAHostileSandbox(t *testing.T) {
	top := tar.Header{Name: "app/", Typeflag: tar.TypeDir}
	for name, headers := range map[string][]tar.Header{
		"leads out": {top, {Name: "app/../../x", Typeflag: tar.TypeReg}},
		"absolute":  {top, {Name: "/etc/x", Typeflag: tar.TypeReg}},
		"through a link": {
			top, {Name: "app/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "app/l/x", Typeflag: tar.TypeReg},
		},
		"no directory":     {{Name: "app", Typeflag: tar.TypeReg}},
		"twice":            {top, {Name: "app/d/", Typeflag: tar.TypeDir}, {Name: "app/d/", Typeflag: tar.TypeDir}},
		"hard link to out": {top, {Name: "app/x", Typeflag: tar.TypeLink, Linkname: "app/../../../etc/passwd"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := pushedTree(t, map[string]string{"a": "a"})
			guest.archive = func() io.Reader { return bytes.NewReader(pack(t, headers...)) }
			r, err := review(t, guest, nil)
			if err == nil {
				t.Errorf("it was reviewed: %+v", r.Changes)
			}
			if diff := cmp.Diff(map[string]string{"a": "a"}, listTree(t, host)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("huge file", func(t *testing.T) {
		_, guest := pushedTree(t, map[string]string{"a": "a"})
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(
			w.WriteHeader(&top), w.WriteHeader(&tar.Header{Name: "app/big", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o600}),
		); err != nil {
			t.Fatal(err)
		}
		guest.archive = func() io.Reader { return io.MultiReader(&b, zeros{}) }
		if _, err := review(t, guest, nil); !errors.Is(err, core.KindExhausted) || !strings.Contains(err.Error(), "big") {
			t.Errorf("%v", err)
		}
	})
	t.Run("what cannot be written", func(t *testing.T) {
		host, guest := pushedTree(t, map[string]string{"a": "a"})
		writeTree(t, guest.dir, map[string]string{
			"out": "-> ../../etc/passwd", "absolute": "-> /etc/passwd", "fine": "-> a", ".GIT/hooks/run": "evil",
			"sub/.git/hooks/run": "evil", "line\nbreak\x1b[2J": "x",
		})
		if err := errors.Join(
			syscall.Mkfifo(filepath.Join(guest.dir, "pipe"), 0o600),
			os.WriteFile(filepath.Join(guest.dir, "setuid"), []byte("s"), 0o600),
			os.Chmod(filepath.Join(guest.dir, "setuid"), 0o755|fs.ModeSetuid),
		); err != nil {
			t.Fatal(err)
		}
		r, err := review(t, guest, nil)
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.Apply(ApplyOptions{Force: true})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"out": "the link leads out of the directory", "absolute": "the link leads out of the directory",
			"pipe": "only files, directories and links can be written",
		}
		if diff := cmp.Diff(want, left(result)); diff != "" {
			t.Errorf("want -, have +:\n%s", diff)
		}
		wantFiles := map[string]string{"a": "a", "fine": "-> a", "line\nbreak\x1b[2J": "x", "setuid": "s"}
		if diff := cmp.Diff(wantFiles, listTree(t, host)); diff != "" {
			t.Errorf("want -, have +:\n%s", diff)
		}
		if info, err := os.Stat(filepath.Join(host, "setuid")); err != nil || info.Mode() != 0o755 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		var patch bytes.Buffer
		if err := r.Patch(&patch); err != nil || strings.Contains(patch.String(), "\x1b") {
			t.Errorf("%q, %v", patch.String(), err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestReviewOfCopyOnWrite gets the changes from the provider.
func TestReviewOfCopyOnWrite(t *testing.T) {
	host, guest := pushedTree(t, originals())
	files, err := origin.Survey(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	guest.last = origin.Origin{Source: host, Target: guestTarget, CopyOnWrite: true, Files: files}
	guestChanges(t, guest.dir)
	for name, kind := range map[string]string{
		"changed": Modified, "gone": Deleted, "dir": Deleted, "type": Modified, "type/file": Added, "link": Modified,
		"new": Added, "new/deep": Added, "kept": Modified, ".git/config": Modified,
	} {
		guest.changes = append(guest.changes, core.Change{Path: guestTarget + "/" + name, Kind: kind})
	}
	guest.changes = append(guest.changes, core.Change{Path: "/etc/passwd", Kind: Modified})
	r, err := review(t, guest, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"changed": Modified, "gone": Deleted, "dir": Deleted, "dir/a": Deleted, "dir/b": Deleted, "type": Modified,
		"type/file": Added, "link": Modified, "new": Added, "new/deep": Added,
	}
	if diff := cmp.Diff(want, found(r)); diff != "" || r.Git != 1 {
		t.Fatalf("want -, have +:\n%s, %d in .git", diff, r.Git)
	}
	if result, err := r.Apply(ApplyOptions{}); err != nil || len(result.Left) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if r, err := review(t, guest, nil); err != nil || len(r.Changes) > 0 {
		t.Errorf("after apply: %+v, %v", found(r), err)
	}
	guest.changes = []core.Change{{Path: guestTarget + "/../../etc/passwd", Kind: Added}}
	if _, err := review(t, guest, nil); !errors.Is(err, core.KindInternal) {
		t.Errorf("%v", err)
	}
}

// TestPatchWithGit applies a patch with the real Git.
func TestPatchWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("SKIPPED: git is not installed")
	}
	files := originals()
	delete(files, ".git/config")
	files["no newline"], files["a \"name\"\twith é"], files["binary"] = "end", "old\n", "\x00old"
	files["only mode"] = "same\n"
	host, guest := pushedTree(t, files)
	guestChanges(t, guest.dir)
	writeTree(t, guest.dir, map[string]string{
		"no newline": "new end", "a \"name\"\twith é": "new\n", "binary": "\x00new", "empty": "",
		"new\nline": "x\n",
	})
	if err := errors.Join(
		os.Chmod(filepath.Join(guest.dir, "only mode"), 0o755), os.RemoveAll(filepath.Join(guest.dir, ".git")),
	); err != nil {
		t.Fatal(err)
	}
	r, err := review(t, guest, nil)
	if err != nil {
		t.Fatal(err)
	}
	var patch bytes.Buffer
	if err := r.Patch(&patch); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(patch.String(), "# changed binary: the file is binary\n") {
		t.Errorf("the binary file is not named:\n%s", patch.String())
	}
	cmd := exec.CommandContext(t.Context(), git, "apply", "-")
	cmd.Dir, cmd.Stdin = host, &patch
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(host))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := listTree(t, guest.dir)
	want["binary"] = "\x00old"
	if diff := cmp.Diff(want, listTree(t, host)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(host, "only mode")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestSelect(t *testing.T) {
	origins := []origin.Origin{
		{Source: "/h/a", Target: "/srv/a"},
		{Source: "/h/b", Target: "/srv/a/sub/b"},
		{Source: "/h/c", Target: "/root", Selected: true, Files: map[string]origin.File{"f": {}}},
	}
	for _, test := range []struct {
		paths  []string
		chosen map[string][]string
		rest   []string
	}{
		{nil, map[string][]string{"/h/a": {"."}, "/h/b": {"."}, "/h/c": {"."}}, nil},
		{[]string{"/srv/a"}, map[string][]string{"/h/a": {"."}}, nil},
		{[]string{"/srv/a/x/y", "/srv/a/z"}, map[string][]string{"/h/a": {"x/y", "z"}}, nil},
		{[]string{"/srv/a/sub/b/x"}, map[string][]string{"/h/b": {"x"}}, nil},
		{[]string{"/srv"}, map[string][]string{"/h/a": {"."}, "/h/b": {"."}}, nil},
		{[]string{"/root/f", "/root/g", "/"}, map[string][]string{"/h/c": {"f"}}, []string{"/root/g", "/"}},
		{[]string{"/srv/ab"}, map[string][]string{}, []string{"/srv/ab"}},
	} {
		chosen, rest := Select(origins, test.paths)
		got := map[string][]string{}
		for _, s := range chosen {
			got[s.Origin.Source] = s.Paths
		}
		if diff := cmp.Diff(test.chosen, got); diff != "" {
			t.Errorf("%v: %s", test.paths, diff)
		}
		if diff := cmp.Diff(test.rest, rest); diff != "" {
			t.Errorf("%v: %s", test.paths, diff)
		}
	}
}
