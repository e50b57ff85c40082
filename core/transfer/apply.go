package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
	"github.com/seed-0724f904/sb/internal/sparse"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	// Force also applies changes with a conflict.
	Force bool
}

// Failure is a change that was not applied.
type Failure struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Applied is the result of Apply.
type Applied struct {
	Done []string  `json:"done"`
	Left []Failure `json:"left,omitempty"`
}

// Apply makes the changes on this machine, below the origin's directory only. Each file is written beside its place and
// then moved there, so it appears whole or not at all. Files with a conflict, and those that cannot be written, stay as
// they are. The error is that of the machine; Left has the rest. Applied files are recorded as the new origin.
func (r *Review) Apply(opts ApplyOptions) (result Applied, err error) {
	result.Done = []string{}
	applied := map[string]bool{}
	defer func() {
		err = errors.Join(err, r.remember(applied))
	}()
	left := func(d Difference, why string) { result.Left = append(result.Left, Failure{d.Path, why}) }
	var deletions, others []Difference
	for _, d := range r.Changes {
		switch {
		case d.Refused != "":
			left(d, d.Refused)
		case d.Conflict != "" && !opts.Force:
			left(d, d.Conflict)
		case d.Kind == Deleted:
			deletions = append(deletions, d)
		default:
			others = append(others, d)
		}
	}
	slices.Reverse(deletions) // what is in a directory comes before it
	var directories []Difference
	for _, d := range slices.Concat(deletions, others) {
		if err := r.ctx.Err(); err != nil {
			return result, err
		}
		why, err := r.apply(d)
		if err != nil {
			return result, fmt.Errorf("%s: %w", gitQuote(d.Path), err)
		}
		if why != "" {
			left(d, why)
			continue
		}
		applied[d.Path] = true
		result.Done = append(result.Done, d.Path)
		if d.Kind != Deleted && d.now.mode.IsDir() {
			directories = append(directories, d)
		}
	}
	for _, d := range slices.Backward(directories) {
		if err := r.root.Chmod(d.Path, d.now.mode.Perm()); err != nil {
			return result, err
		}
	}
	return result, nil
}

// apply makes one change. why says that it is left out.
func (r *Review) apply(d Difference) (why string, err error) {
	clear(r.real)
	r.real["."] = true
	if !r.isReal(path.Dir(d.Path)) {
		return "the directory above it is not a directory on this machine", nil
	}
	// It could have changed since it was shown. Deletions below it change the time of a directory only.
	now, err := r.host(d.Path)
	if err != nil {
		return "", err
	}
	if now.there != d.was.there || now.there && !d.was.file.Same(now.file) {
		return "it changed on this machine meanwhile", nil
	}
	if now.mode.IsDir() && (d.Kind == Deleted || !d.now.mode.IsDir()) || d.Kind == Deleted {
		err := r.root.Remove(d.Path)
		if now.mode.IsDir() && notEmpty(r.root, d.Path) {
			return "the directory is not empty on this machine", nil
		}
		if err != nil || d.Kind == Deleted {
			return "", err
		}
	}
	switch {
	case d.now.mode.IsDir() && now.mode.IsDir():
		return "", nil // its mode is set at the end
	case d.now.mode.IsDir():
		if now.there {
			if err := r.root.Remove(d.Path); err != nil {
				return "", err
			}
		}
		if err := r.root.Mkdir(d.Path, 0o700); err != nil {
			return "", err
		}
		return "", r.own(d.Path, d)
	}
	return "", r.put(d)
}

func notEmpty(root *os.Root, dir string) bool {
	entries, err := fs.ReadDir(root.FS(), dir)
	return err == nil && len(entries) > 0
}

// put writes a file or a link beside its place and moves it there.
func (r *Review) put(d Difference) (err error) {
	temp := path.Join(path.Dir(d.Path), tempName())
	defer func() {
		if err != nil {
			if removeErr := r.root.Remove(temp); !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
	}()
	if d.now.mode&fs.ModeSymlink != 0 {
		err = r.root.Symlink(d.now.link, temp)
	} else {
		err = r.fillFile(temp, d)
	}
	if err != nil {
		return err
	}
	if err := r.own(temp, d); err != nil {
		return err
	}
	return replace(r.root, temp, d.Path)
}

// fillFile writes the kept content to a new file. It has no setuid, setgid or sticky bit.
func (r *Review) fillFile(name string, d Difference) (err error) {
	content, err := r.stage.Open(d.now.staged)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	holes := sparse.NewWriter(f)
	buf := make([]byte, min(copyBuffer, d.now.size+1))
	if _, err := io.CopyBuffer(holes, struct{ io.Reader }{until{r.ctx, content}}, buf); err != nil {
		return err
	}
	if err := holes.Finish(); err != nil {
		return err
	}
	return f.Chmod(d.now.mode.Perm())
}

// own gives a new file the owner of the one that it replaces, or of its directory. Only root can.
func (r *Review) own(name string, d Difference) error {
	if os.Geteuid() != 0 {
		return nil
	}
	like := d.Path
	if !d.was.there || like == name {
		like = path.Dir(d.Path)
	}
	info, err := r.root.Lstat(like)
	if err != nil {
		return err
	}
	uid, gid, known := ownerOf(info)
	if !known {
		return nil
	}
	return r.root.Lchown(name, uid, gid)
}

// remember records the applied files as the state that the sandbox has.
func (r *Review) remember(applied map[string]bool) error {
	o := r.request.Origin
	if len(applied) == 0 || o.Files == nil {
		return nil
	}
	for _, d := range r.Changes {
		if !applied[d.Path] {
			continue
		}
		now, err := r.root.Lstat(d.Path)
		if err != nil {
			delete(o.Files, d.Path)
			continue
		}
		file := origin.FileOf(now)
		file.Link = d.now.link
		if !o.CopyOnWrite {
			file.Sum = d.now.sum
		}
		o.Files[d.Path] = file
	}
	return r.files.RecordOrigin(context.WithoutCancel(r.ctx), r.request.Sandbox, o)
}

// ConflictError returns the error for changes that were not applied, or nil.
func (a Applied) ConflictError(source string) error {
	if len(a.Left) == 0 {
		return nil
	}
	var names []string
	for _, f := range a.Left[:min(len(a.Left), noticed)] {
		names = append(names, gitQuote(f.Path)+" ("+f.Why+")")
	}
	if more := len(a.Left) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return core.Errorf(core.KindConflict, "apply", source, "%d of %d changes were not applied: %s",
		len(a.Left), len(a.Left)+len(a.Done), strings.Join(names, ", ")).
		WithHint("compare them with sb diff; --force replaces files that changed on this machine")
}
