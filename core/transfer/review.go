package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
)

// ReviewFiles has the methods of service.Files that a review needs.
type ReviewFiles interface {
	Files
	Diff(ctx context.Context, ref string) ([]core.Change, error)
	RecordOrigin(ctx context.Context, ref string, o origin.Origin) error
}

// ReviewRequest selects the changes of a review.
type ReviewRequest struct {
	Sandbox string
	Origin  origin.Origin
	// Paths are relative to the origin, slash separated; "." is all. A path selects what is below it, too.
	Paths []string
	// IncludeGit also compares files named .git and those below. Git runs programs that its files name.
	IncludeGit bool
	// Content keeps the content of changed files, for Patch and Apply.
	Content bool
}

// The kinds of a Difference.
const (
	Added    = "added"
	Modified = "changed"
	Deleted  = "deleted"
)

// Difference is a file that a sandbox changed, compared with this machine's file.
type Difference struct {
	// Path is relative to the origin, slash separated. The sandbox chose it: it can have any byte except 0.
	Path string `json:"path"`
	// Kind is Added, Modified or Deleted: what Apply does on this machine.
	Kind string `json:"kind"`
	// Type is "file", "directory", "link" or "other"; for a deleted file it is this machine's.
	Type string `json:"type"`
	Size int64  `json:"size,omitempty"`
	Link string `json:"link,omitempty"`
	// Conflict says how the file changed on this machine since the sandbox got it; "" means that it did not.
	Conflict string `json:"conflict,omitempty"`
	// Refused says why Apply cannot do it; "" means that it can.
	Refused string `json:"refused,omitempty"`

	now, was copied // in the sandbox and on this machine
}

// Review is the comparison of an origin with its copy in a sandbox. The content of changed files was read once, so
// Patch and Apply use the same content, whatever the sandbox does meanwhile. The caller closes it.
type Review struct {
	// Changes are sorted by path.
	Changes []Difference
	// Git is the number of changes of .git that were left out.
	Git int

	ctx     context.Context //nolint:containedctx // a review lives for one command
	files   ReviewFiles
	request ReviewRequest
	root    *os.Root // of this machine's directory
	staged  string   // a private directory with the content
	stage   *os.Root
	ignored *ignore
	entries int
	real    map[string]bool // directories of this machine that no link leads to
	found   map[string]copied
	gone    []string
}

// copied is a file of a sandbox, or of this machine.
type copied struct {
	there bool        // the zero value is a file that does not exist
	mode  fs.FileMode // type and permissions
	size  int64
	link  string
	sum   string
	// staged is the file's name in the private directory; "" means that the content was not kept.
	staged string
	file   origin.File // of this machine's
}

const (
	// maxReviewFile is the size of the largest file that is compared, in bytes.
	maxReviewFile = 4 << 30
	// maxReviewStage is the highest size of all kept content, in bytes.
	maxReviewStage = 16 << 30
)

// NewReview compares a sandbox with the origin of its files.
func NewReview(ctx context.Context, files ReviewFiles, request ReviewRequest) (_ *Review, err error) {
	r := &Review{
		ctx: ctx, files: files, request: request, real: map[string]bool{".": true}, found: map[string]copied{},
		ignored: newIgnore(request.Origin.Exclude, request.Origin.GitIgnore),
	}
	defer func() {
		if err != nil {
			err = errors.Join(core.Wrap("diff", request.Origin.Target, err), r.Close())
		}
	}()
	if err := r.open(); err != nil {
		return nil, err
	}
	paths := request.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if request.Origin.Selected {
		var names []string
		for name := range request.Origin.Files {
			if slices.ContainsFunc(paths, func(p string) bool { return p == "." || inside(p, name) }) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		paths = names
	}
	r.request.Paths = paths
	if err := r.readIgnored(); err != nil {
		return nil, err
	}
	if request.Origin.CopyOnWrite {
		err = r.collectLayer()
	} else {
		err = r.collectTree()
	}
	if err != nil {
		return nil, err
	}
	if err := r.compare(); err != nil {
		return nil, err
	}
	return r, nil
}

// Close removes the kept content.
func (r *Review) Close() error {
	var err error
	for _, root := range []*os.Root{r.root, r.stage} {
		if root != nil {
			err = errors.Join(err, root.Close())
		}
	}
	if r.staged != "" {
		err = errors.Join(err, os.RemoveAll(r.staged))
	}
	return err
}

// open opens the directory of this machine, and makes the private directory.
func (r *Review) open() error {
	source := r.request.Origin.Source
	if whole, err := filepath.EvalSymlinks(source); err != nil || whole != source {
		if err != nil {
			return err
		}
		return core.Errorf(core.KindConflict, "diff", source, "the directory was replaced by a link")
	}
	var err error
	if r.root, err = os.OpenRoot(source); err != nil {
		return err
	}
	if r.staged, err = os.MkdirTemp("", "sb-review-"); err != nil {
		return err
	}
	r.stage, err = os.OpenRoot(r.staged)
	return err
}

// readIgnored reads this machine's .gitignore files, if they decided what was pushed.
func (r *Review) readIgnored() error {
	if !r.request.Origin.GitIgnore {
		return nil
	}
	names := []string{}
	for name := range r.request.Origin.Files {
		if path.Base(name) == ignoreFile {
			names = append(names, path.Dir(name))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return depth(a) - depth(b) })
	for _, dir := range names {
		if err := r.ignored.addFile(r.root.FS(), dir); err != nil {
			return err
		}
	}
	return nil
}

// chosen reports whether a path is selected, or leads to one that is.
func (r *Review) chosen(name string) bool {
	return slices.ContainsFunc(r.request.Paths, func(p string) bool {
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// skipped reports whether a path is left out of the review.
func (r *Review) skipped(name string, directory bool) bool {
	if !r.chosen(name) || r.ignored.excluded(name, directory) {
		return true
	}
	if r.request.IncludeGit || !inGit(name) {
		return false
	}
	return true
}

// inGit reports whether a path is a .git or lies in one. File systems may ignore the case of letters.
func inGit(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, gitName) {
			return true
		}
	}
	return false
}

// host returns the state of this machine's file. It does not exist if the path leads through a link.
func (r *Review) host(name string) (copied, error) {
	if dir := path.Dir(name); !r.isReal(dir) {
		return copied{}, nil
	}
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return copied{}, nil
	}
	if err != nil {
		return copied{}, err
	}
	c := copied{there: true, mode: info.Mode(), file: origin.FileOf(info)}
	switch {
	case info.Mode().IsRegular():
		c.size = info.Size()
	case info.Mode()&fs.ModeSymlink != 0:
		c.link, err = r.root.Readlink(name)
		c.file.Link = c.link
	}
	return c, err
}

// isReal reports whether a path is a directory of this machine that no link leads to.
func (r *Review) isReal(dir string) bool {
	if is, known := r.real[dir]; known {
		return is
	}
	is := r.isReal(path.Dir(dir))
	if is {
		info, err := r.root.Lstat(dir)
		is = err == nil && info.IsDir()
	}
	r.real[dir] = is
	return is
}

// hostSum returns the SHA-256 of this machine's file.
func (r *Review) hostSum(name string) (string, error) {
	f, err := r.openHost(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return sumOf(until{r.ctx, io.LimitReader(f, maxReviewFile+1)})
}

// compare makes Changes of the files that were found in the sandbox.
func (r *Review) compare() error {
	deleted := map[string]bool{}
	for _, name := range r.gone {
		if err := r.compareDeleted(name, deleted); err != nil {
			return err
		}
	}
	for name, now := range r.found {
		was, err := r.host(name)
		if err != nil {
			return err
		}
		if was.mode.IsDir() && !now.mode.IsDir() {
			if err := r.compareBelow(name, deleted); err != nil {
				return err
			}
		}
		same, err := r.same(name, now, &was)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		d := Difference{
			Path: name, Kind: Modified, Type: typeOf(now.mode), Size: now.size, Link: now.link, now: now, was: was,
		}
		if !was.there {
			d.Kind = Added
		}
		if d.Conflict, err = r.conflict(name, was, now.mode.IsDir()); err != nil {
			return err
		}
		d.Refused = refusal(name, now)
		r.Changes = append(r.Changes, d)
	}
	slices.SortFunc(r.Changes, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// compareDeleted adds a file that the sandbox deleted, with all below it.
func (r *Review) compareDeleted(name string, done map[string]bool) error {
	if done[name] || r.skipped(name, false) {
		return nil
	}
	done[name] = true
	was, err := r.host(name)
	if err != nil || !was.there {
		return err
	}
	if was.mode.IsDir() {
		if err := r.compareBelow(name, done); err != nil {
			return err
		}
	}
	d := Difference{Path: name, Kind: Deleted, Type: typeOf(was.mode), was: was}
	if d.Conflict, err = r.conflict(name, was, false); err != nil {
		return err
	}
	r.Changes = append(r.Changes, d)
	return nil
}

// compareBelow adds what this machine has below a directory that is none in the sandbox.
func (r *Review) compareBelow(dir string, done map[string]bool) error {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := r.count(); err != nil {
			return err
		}
		if err := r.compareDeleted(path.Join(dir, entry.Name()), done); err != nil {
			return err
		}
	}
	return nil
}

// count bounds the number of compared files.
func (r *Review) count() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.entries++; r.entries > origin.MaxFiles {
		target := r.request.Origin.Target
		return core.Errorf(core.KindExhausted, "diff", target, "more than %d files changed", origin.MaxFiles).
			WithHint("name a directory: sb diff SANDBOX PATH")
	}
	return nil
}

// same reports whether the sandbox's file equals this machine's.
func (r *Review) same(name string, now copied, was *copied) (bool, error) {
	if !was.there || now.mode.Type() != was.mode.Type() {
		return false, nil
	}
	switch {
	case now.mode&fs.ModeSymlink != 0:
		return now.link == was.link, nil
	case now.mode.Perm() != was.mode.Perm():
		return false, nil
	case !now.mode.IsRegular():
		return now.mode.IsDir(), nil
	case now.size != was.size:
		return false, nil
	}
	sum, err := r.hostSum(name)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	was.sum = sum
	return sum == now.sum, err
}

// conflict says how this machine's file changed since the sandbox got it. directory: the sandbox has a directory there.
func (r *Review) conflict(name string, was copied, directory bool) (string, error) {
	files := r.request.Origin.Files
	if files == nil {
		return "its state at the start was not recorded", nil
	}
	then, known := files[name]
	switch {
	case !known && !was.there:
		return "", nil
	case !known && directory && was.mode.IsDir():
		return "", nil
	case !known:
		return "it was made on this machine, too", nil
	case !was.there:
		return "it was deleted on this machine", nil
	case then.Same(was.file):
		return "", nil
	}
	if then.Sum != "" && then.Mode == was.mode && was.mode.IsRegular() && then.Size == was.size {
		sum := was.sum
		if sum == "" {
			var err error
			if sum, err = r.hostSum(name); err != nil {
				return "", err
			}
		}
		if sum == then.Sum {
			return "", nil
		}
	}
	return "it was changed on this machine", nil
}

// refusal says why a file of the sandbox cannot be written to this machine.
func refusal(name string, now copied) string {
	switch {
	case now.mode&fs.ModeSymlink != 0 && leadsOutside(name, now.link):
		return "the link leads out of the directory"
	case now.mode.IsRegular(), now.mode.IsDir(), now.mode&fs.ModeSymlink != 0:
		return ""
	}
	return "only files, directories and links can be written"
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}
