package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
	"github.com/seed-0724f904/sb/internal/sparse"
)

// collecting is the state of the readers of one review.
type collecting struct {
	*Review

	mu     sync.Mutex
	staged int64 // bytes
	number int
}

// readers is the number of files that are read from a sandbox at the same time.
const readers = 8

// collectLayer finds the changes below a copy-on-write directory.
func (r *Review) collectLayer() error {
	changes, err := r.files.Diff(r.ctx, r.request.Sandbox)
	if err != nil {
		return err
	}
	c := &collecting{Review: r}
	below := strings.TrimSuffix(r.request.Origin.Target, "/") + "/"
	whole := "" // the last directory that is read with all below it
	var read []core.Change
	for _, change := range changes {
		name, inside := strings.CutPrefix(change.Path, below)
		if !inside || whole != "" && strings.HasPrefix(name, whole+"/") {
			continue
		}
		if name != path.Clean(name) || strings.HasPrefix(name, "../") || name == ".." {
			return core.Errorf(core.KindInternal, "diff", change.Path, "the sandbox sent a path that leads outside")
		}
		if !r.request.IncludeGit && inGit(name) {
			r.Git++
			continue
		}
		if !r.chosen(name) {
			continue
		}
		if err := r.count(); err != nil {
			return err
		}
		if change.Kind == Deleted {
			r.gone = append(r.gone, name)
			continue
		}
		if change.Kind == Added {
			whole = name
		}
		read = append(read, core.Change{Path: name, Kind: change.Kind})
	}
	work, ctx := errgroup.WithContext(r.ctx)
	work.SetLimit(readers)
	for _, change := range read {
		work.Go(func() error { return c.one(ctx, change.Path, change.Kind == Added) })
	}
	return work.Wait()
}

// one reads a changed file. A new directory is read with its entries.
func (c *collecting) one(ctx context.Context, name string, added bool) error {
	target := path.Join(c.request.Origin.Target, name)
	info, err := c.files.Stat(ctx, c.request.Sandbox, target)
	if errors.Is(err, core.KindNotFound) {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	if info.Mode.IsDir() && !added {
		return c.keep(name, copied{mode: info.Mode & (fs.ModeType | fs.ModePerm)})
	}
	if !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return c.keep(name, copied{mode: info.Mode & (fs.ModeType | fs.ModePerm), link: info.Link})
	}
	return c.export(ctx, target, name)
}

// collectTree reads a whole tree, and compares it with the files that were pushed.
func (r *Review) collectTree() error {
	c := &collecting{Review: r}
	for _, name := range r.request.Paths {
		err := c.export(r.ctx, path.Join(r.request.Origin.Target, name), name)
		if errors.Is(err, core.KindNotFound) && name != "." {
			err = nil // all below it was deleted
		}
		if err != nil {
			return err
		}
	}
	for name, then := range r.request.Origin.Files {
		if r.skipped(name, then.Mode.IsDir()) {
			continue
		}
		now, there := r.found[name]
		switch {
		case !there:
			r.gone = append(r.gone, name)
		case pushed(then, now):
			delete(r.found, name) // the sandbox did not change it
		}
	}
	slices.Sort(r.gone)
	return nil
}

// pushed reports whether a file of the sandbox is as it was pushed.
func pushed(then origin.File, now copied) bool {
	if then.Mode.Type() != now.mode.Type() {
		return false
	}
	if now.mode&fs.ModeSymlink != 0 {
		return then.Link == now.link
	}
	return then.Mode.Perm() == now.mode.Perm() && then.Sum == now.sum
}

// export reads a file or a tree of the sandbox. name is its path relative to the origin.
func (c *collecting) export(ctx context.Context, target, name string) (err error) {
	archive, err := c.files.Export(ctx, c.request.Sandbox, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	reader := copier{Files: c.files, ctx: ctx, Request: Request{From: Endpoint{c.request.Sandbox, target}}}
	return reader.entries(bufio.NewReaderSize(archive, copyBuffer), func(r *tar.Reader, header *tar.Header) error {
		return c.entry(ctx, r, header, name)
	})
}

// entry takes one file of an archive, whose names are relative to the directory in.
func (c *collecting) entry(ctx context.Context, r io.Reader, header *tar.Header, in string) error {
	name := path.Join(in, header.Name) //nolint:gosec // entries has checked it
	if name == "." && header.Typeflag != tar.TypeDir {
		return core.Errorf(core.KindConflict, "diff", c.request.Origin.Target, "it is no longer a directory")
	}
	if !c.request.IncludeGit && inGit(name) {
		if _, known := c.request.Origin.Files[name]; !known {
			c.mu.Lock()
			c.Git++
			c.mu.Unlock()
		}
		return nil
	}
	if c.skipped(name, header.Typeflag == tar.TypeDir) {
		return nil
	}
	mode := header.FileInfo().Mode() & (fs.ModeType | fs.ModePerm)
	switch header.Typeflag {
	case tar.TypeReg:
		return c.content(ctx, name, mode, header.Size, r)
	case tar.TypeLink: // it is compared like a file of its own
		return c.linked(ctx, name)
	case tar.TypeSymlink:
		return c.keep(name, copied{mode: fs.ModeSymlink | fs.ModePerm, link: header.Linkname})
	case tar.TypeXGlobalHeader:
		return nil
	}
	return c.keep(name, copied{mode: mode})
}

// linked reads a file that has another name in the archive.
func (c *collecting) linked(ctx context.Context, name string) (err error) {
	target := path.Join(c.request.Origin.Target, name)
	info, err := c.files.Stat(ctx, c.request.Sandbox, target)
	if err != nil {
		return err
	}
	if !info.Mode.IsRegular() {
		return c.keep(name, copied{mode: info.Mode & (fs.ModeType | fs.ModePerm), link: info.Link})
	}
	content, err := c.files.ReadFile(ctx, c.request.Sandbox, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return c.content(ctx, name, info.Mode.Perm(), info.Size, content)
}

// content reads a regular file, and keeps its content if the review needs it.
func (c *collecting) content(ctx context.Context, name string, mode fs.FileMode, size int64, r io.Reader) (err error) {
	if size > maxReviewFile {
		return core.Errorf(
			core.KindExhausted, "diff", path.Join(c.request.Origin.Target, name), "it has %s, and at most %s are compared",
			core.Bytes(size), core.Bytes(maxReviewFile),
		).WithHint("name the other files: sb diff SANDBOX PATH")
	}
	file := copied{mode: mode, size: size}
	sum := sha256.New()
	from := io.TeeReader(until{ctx, io.LimitReader(r, maxReviewFile+1)}, sum)
	read := int64(0)
	if then, known := c.request.Origin.Files[name]; !c.request.Content || known && then.Sum != "" && then.Size == size {
		// It is probably unchanged. If it is not, its content is read again.
		read, err = io.Copy(io.Discard, from)
		file.sum = hex.EncodeToString(sum.Sum(nil))
		if err == nil && c.request.Content && (then.Sum != file.sum || then.Mode.Perm() != mode.Perm()) {
			return c.again(ctx, name)
		}
	} else {
		file.staged, read, err = c.toStage(size, from)
		file.sum = hex.EncodeToString(sum.Sum(nil))
	}
	if err != nil {
		return err
	}
	file.size = read
	return c.keep(name, file)
}

// again reads a file whose content turned out to be needed.
func (c *collecting) again(ctx context.Context, name string) (err error) {
	target := path.Join(c.request.Origin.Target, name)
	info, err := c.files.Stat(ctx, c.request.Sandbox, target)
	if err != nil {
		return err
	}
	content, err := c.files.ReadFile(ctx, c.request.Sandbox, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	sum := sha256.New()
	file := copied{mode: info.Mode & (fs.ModeType | fs.ModePerm)}
	if !file.mode.IsRegular() {
		return core.Errorf(core.KindConflict, "diff", target, "it changed while it was read").WithHint("try again")
	}
	file.staged, file.size, err = c.toStage(info.Size, io.TeeReader(until{ctx, content}, sum))
	if err != nil {
		return err
	}
	file.sum = hex.EncodeToString(sum.Sum(nil))
	return c.keep(name, file)
}

// toStage keeps content in the private directory.
func (c *collecting) toStage(size int64, from io.Reader) (name string, read int64, err error) {
	c.mu.Lock()
	c.number++
	name = strconv.Itoa(c.number)
	c.staged += size
	full := c.staged > maxReviewStage
	c.mu.Unlock()
	if full {
		return "", 0, core.Errorf(
			core.KindExhausted, "diff", c.request.Origin.Target, "more than %s changed", core.Bytes(maxReviewStage),
		).WithHint("name a directory: sb diff SANDBOX PATH")
	}
	f, err := c.stage.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	holes := sparse.NewWriter(f)
	// The size is what was announced: more would not be counted.
	bounded := struct{ io.Reader }{io.LimitReader(from, size)}
	if read, err = io.CopyBuffer(holes, bounded, make([]byte, 64<<10)); err == nil {
		err = holes.Finish()
	}
	return name, read, err
}

// keep records a file of the sandbox.
func (c *collecting) keep(name string, file copied) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.count(); err != nil {
		return err
	}
	file.there = true
	c.found[name] = file
	return nil
}

// openHost opens this machine's file, which must be a regular one.
func (r *Review) openHost(name string) (*os.File, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe put in its place must not block
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, core.Errorf(core.KindConflict, "diff", name, "it changed while it was read"))
	}
	return f, nil
}

func sumOf(r io.Reader) (string, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), err
}
