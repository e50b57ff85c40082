package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
)

// Files has the methods of service.Files that a copy needs.
type Files interface {
	Stat(ctx context.Context, ref, name string) (core.FileInfo, error)
	ReadDir(ctx context.Context, ref, name string) ([]core.FileInfo, error)
	ReadFile(ctx context.Context, ref, name string) (io.ReadCloser, error)
	WriteFile(ctx context.Context, ref, name string, content io.Reader, opts core.WriteOptions) error
	Mkdir(ctx context.Context, ref, name string, parents bool) error
	Remove(ctx context.Context, ref, name string, recursive bool) error
	Export(ctx context.Context, ref, name string) (io.ReadCloser, error)
	Import(ctx context.Context, ref, dir string, archive io.Reader, opts core.ImportOptions) error
}

// Endpoint is a path in a sandbox, or on this machine when Sandbox is "". On this machine, the path "-" is Request.In
// or Request.Out.
type Endpoint struct{ Sandbox, Path string }

func (e Endpoint) stream() bool { return e.Sandbox == "" && e.Path == "-" }

// String returns the operand in the syntax of commands.
func (e Endpoint) String() string {
	if e.Sandbox == "" {
		return e.Path
	}
	return e.Sandbox + ":" + e.Path
}

// Request is one copy.
type Request struct {
	From, To Endpoint
	// Exclude has patterns in the syntax of .gitignore, relative to the copied tree.
	Exclude []string
	// GitIgnore skips .git and the files that the .gitignore files of a copied tree name.
	GitIgnore bool
	// IncludeGit allows a copy to this machine to write to an existing .git, or below it. Git runs programs that its files
	// name.
	IncludeGit bool
	// Root, when set, contains the pushed files: From.Path is below it, and no link leads out of it.
	Root *os.Root
	In   io.Reader
	Out  io.Writer
	// Progress receives the number of bytes copied so far.
	Progress core.ProgressFunc
}

// Result is the result of a copy.
type Result struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	// Warnings describe the files that were not copied exactly.
	Warnings []string `json:"warnings,omitempty"`
}

// Copy makes one copy.
func Copy(ctx context.Context, files Files, request Request) (Result, error) {
	c := &copier{
		Files: files, Request: request, ctx: ctx,
		result: Result{Source: request.From.String(), Destination: request.To.String()},
	}
	var err error
	switch {
	case request.From.stream() && request.To.Sandbox != "":
		err = c.fromStream()
	case request.To.stream() && request.From.Sandbox != "":
		err = c.toStream()
	case request.From.Sandbox == "" && request.To.Sandbox != "":
		err = c.push()
	case request.From.Sandbox != "" && request.To.Sandbox == "":
		err = c.pull()
	case request.From.Sandbox != "":
		err = c.across()
	default:
		err = core.Errorf(core.KindUsage, "copy", "", "neither side is in a sandbox").
			WithHint("write SANDBOX:PATH for a path in a sandbox")
	}
	c.result.Warnings = c.notices.list()
	return c.result, core.Wrap("copy", request.From.String(), err)
}

// copier is a copy in progress.
type copier struct {
	Files
	Request
	ctx    context.Context //nolint:containedctx // a copier lives for one call
	result Result
	total  int64

	notices notices
	// pushed are the files that a push has copied, by their path in the tree.
	pushed map[string]origin.File
	// buf is what buffer returns.
	buf []byte
}

// buffer returns the memory for one read of the goroutine that writes to this machine. All files of a copy share it:
// one for each file would cost more than the rest of a small file.
func (c *copier) buffer() []byte {
	if c.buf == nil {
		c.buf = make([]byte, copyBuffer)
	}
	return c.buf
}

// count adds copied bytes.
func (c *copier) count(n int) {
	c.result.Bytes += int64(n)
	if c.Progress != nil {
		c.Progress(core.Progress{Step: "copying", Done: c.result.Bytes, Total: c.total})
	}
}

// counted counts the bytes read through it, and fails once the context has ended.
type counted struct {
	c *copier
	r io.Reader
}

func (r counted) Read(p []byte) (int, error) {
	if err := r.c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if n > 0 {
		r.c.count(n)
	}
	return n, err
}

// source interprets a path with or without a trailing slash. base is the name of the copy: the path's last element. A
// path that ends without a name means the content.
func source(name string) (clean, base string, content bool) {
	content = strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.")
	clean = path.Clean(name)
	base = path.Base(clean)
	return clean, base, content || base == "." || base == ".." || base == "/"
}

// target returns the target of a copy in a sandbox: base in an existing directory, or the path itself. exists reports
// an existing directory.
func (c *copier) target(to Endpoint, base string, directory, content bool) (name string, exists bool, err error) {
	info, err := c.Stat(c.ctx, to.Sandbox, to.Path)
	if err == nil && info.Mode&fs.ModeSymlink != 0 {
		// As in cp, a link to a directory counts as a directory.
		if _, dirErr := c.ReadDir(c.ctx, to.Sandbox, to.Path); dirErr == nil {
			info.Mode = fs.ModeDir
		}
	}
	switch {
	case err != nil && !errors.Is(err, core.KindNotFound):
		return "", false, err
	case err != nil && strings.HasSuffix(to.Path, "/") && !directory:
		if _, err := c.Stat(c.ctx, to.Sandbox, "/"); err != nil {
			return "", false, err // the sandbox is missing
		}
		return "", false, core.Errorf(core.KindNotFound, "copy", to.String(), "there is no such directory").
			WithHint("create it first: sb fs mkdir -p %s %s", to.Sandbox, to.Path)
	case err != nil:
		return to.Path, false, nil
	case !info.Mode.IsDir() && directory:
		return "", false, core.Errorf(
			core.KindConflict, "copy", to.String(), "it is a file, and a directory cannot replace it",
		)
	case !info.Mode.IsDir() || content:
		return to.Path, info.Mode.IsDir(), nil
	}
	name = path.Join(to.Path, base)
	info, err = c.Stat(c.ctx, to.Sandbox, name)
	switch {
	case err != nil && !errors.Is(err, core.KindNotFound):
		return "", false, err
	case err == nil && info.Mode.IsDir() != directory:
		return "", false, core.Errorf(core.KindConflict, "copy", to.Sandbox+
			":"+name, "a file and a directory cannot replace each other")
	}
	return name, err == nil && info.Mode.IsDir(), nil
}

// fromStream writes a stream to one file.
func (c *copier) fromStream() error {
	if c.In == nil {
		return core.Errorf(core.KindUsage, "copy", "-", "there is no input to read")
	}
	if info, err := c.Stat(c.ctx, c.To.Sandbox, c.To.Path); strings.HasSuffix(c.To.Path, "/") || err == nil &&
		info.Mode.IsDir() {
		return core.Errorf(core.KindConflict, "copy", c.To.String(), "it is a directory").
			WithHint("name a file: stdin has no name of its own")
	}
	c.result.Files = 1
	return c.WriteFile(c.ctx, c.To.Sandbox, c.To.Path, counted{c, c.In}, core.WriteOptions{})
}

// toStream writes one file, or a directory as a tar archive, to a stream.
func (c *copier) toStream() (err error) {
	if c.Out == nil {
		return core.Errorf(core.KindUsage, "copy", "-", "there is no output to write")
	}
	info, err := c.Stat(c.ctx, c.From.Sandbox, c.From.Path)
	if err != nil {
		return err
	}
	c.result.Files = 1
	if info.Mode.IsDir() {
		return c.treeToStream()
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, c.From.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	_, err = io.CopyBuffer(struct{ io.Writer }{c.Out}, counted{c, content}, c.buffer())
	return err
}

// treeToStream writes a directory's archive, whose names begin with the requested name.
func (c *copier) treeToStream() (err error) {
	name, base, content := source(c.From.Path)
	ignored, err := c.ignoredInside(name)
	if err != nil {
		return err
	}
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	prefix := "."
	if !content || base != "." && base != ".." && base != "/" {
		prefix = base
	}
	buffered := bufio.NewWriterSize(c.Out, copyBuffer)
	w := tar.NewWriter(buffered)
	c.result.Files = 0
	if err := c.repack(bufio.NewReaderSize(archive, copyBuffer), name, prefix, ignored, w); err != nil {
		return err
	}
	return errors.Join(w.Close(), buffered.Flush())
}

// copyBuffer is the size of one read, in bytes.
const copyBuffer = 1 << 20
