package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// maxPatch is the size of the largest text that a patch shows, in bytes.
const maxPatch = 1 << 20

// Patch writes the changes as a patch that "git apply" accepts in the origin's directory. Changes that a patch cannot
// show, such as binary files, are named between the patches; Git skips such lines. The review must have the content.
func (r *Review) Patch(w io.Writer) error {
	for _, d := range r.Changes {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.patch(w, d); err != nil {
			return err
		}
	}
	return nil
}

func (r *Review) patch(w io.Writer, d Difference) error {
	// Git does not know directories, and a patch cannot change the type of a file: it deletes one and makes the other.
	if d.Kind == Modified && d.was.mode.Type() != d.now.mode.Type() {
		gone, made := d, d
		gone.Kind, gone.now = Deleted, copied{}
		made.Kind, made.was = Added, copied{}
		return errors.Join(r.patch(w, gone), r.patch(w, made))
	}
	if d.now.mode.IsDir() || d.Kind == Deleted && d.was.mode.IsDir() {
		return nil
	}
	name := func(prefix string) string { return gitQuote(prefix + d.Path) }
	before, whyBefore, err := r.hostText(d)
	if err != nil {
		return err
	}
	after, whyAfter, err := r.sandboxText(d)
	if err != nil {
		return err
	}
	for _, why := range []string{whyBefore, whyAfter} {
		if why != "" {
			_, err := fmt.Fprintf(w, "# %s %s: %s\n", d.Kind, gitQuote(d.Path), why)
			return err
		}
	}
	was, now := gitMode(d.was), gitMode(d.now)
	from, to := name("a/"), name("b/")
	head := fmt.Sprintf("diff --git %s %s\n", from, to)
	switch {
	case d.Kind == Added:
		head += "new file mode " + now + "\n"
		from = "/dev/null"
	case d.Kind == Deleted:
		head += "deleted file mode " + was + "\n"
		to = "/dev/null"
	case was != now:
		head += "old mode " + was + "\nnew mode " + now + "\n"
	}
	text := ""
	if before != after {
		if text = udiff.Unified(from, to, before, after); text == "" {
			return nil
		}
	} else if d.Kind == Modified && was == now {
		return nil // only permissions differ that Git does not know
	}
	_, err = io.WriteString(w, head+text)
	return err
}

// hostText returns the content of this machine's file. why says that it has none that a patch can show.
func (r *Review) hostText(d Difference) (text, why string, err error) {
	if !d.was.there || d.Kind == Added || d.was.mode.IsDir() {
		return "", "", nil
	}
	if d.was.mode&fs.ModeSymlink != 0 {
		return d.was.link, "", nil
	}
	if !d.was.mode.IsRegular() {
		return "", "it is neither a file nor a link on this machine", nil
	}
	f, err := r.openHost(d.Path)
	if errors.Is(err, fs.ErrPermission) {
		return "", "it cannot be read on this machine", nil
	}
	if err != nil {
		return "", "", err
	}
	defer func() { _ = f.Close() }()
	return readText(f)
}

// sandboxText returns the content of the sandbox's file. why says that it has none that a patch can show.
func (r *Review) sandboxText(d Difference) (text, why string, err error) {
	switch {
	case d.Kind == Deleted:
		return "", "", nil
	case d.Refused != "":
		return "", d.Refused, nil
	case d.now.mode&fs.ModeSymlink != 0:
		return d.now.link, "", nil
	}
	f, err := r.stage.Open(d.now.staged)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = f.Close() }()
	return readText(f)
}

func readText(f io.Reader) (text, why string, err error) {
	content, err := io.ReadAll(io.LimitReader(f, maxPatch+1))
	switch {
	case err != nil:
		return "", "", err
	case len(content) > maxPatch:
		return "", "the file is too large to show", nil
	case bytes.IndexByte(content, 0) >= 0:
		return "", "the file is binary", nil
	}
	return string(content), "", nil
}

// gitMode returns the mode of a file as Git writes it.
func gitMode(c copied) string {
	switch {
	case c.mode&fs.ModeSymlink != 0:
		return "120000"
	case c.mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// gitQuote returns a path as Git writes it in a patch: in quotes, with escapes, if a character of it could be
// misunderstood. Control characters do not reach a terminal.
func gitQuote(name string) string {
	if utf8.ValidString(name) && path.Clean(name) == name &&
		!strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x7f }) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// QuotedPath returns a path of a Difference for one line of a terminal.
func QuotedPath(name string) string { return gitQuote(name) }
