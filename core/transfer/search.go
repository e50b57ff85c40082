package transfer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"regexp"

	"github.com/seed-0724f904/sb/core"
)

// SearchRequest selects lines of text files.
type SearchRequest struct {
	Tree

	Pattern *regexp.Regexp
	// Context is the number of lines before and after each match.
	Context int
	// MaxBytes bounds the content that is read; 0 is 1 GiB.
	MaxBytes int64
	// Clean, when set, filters the content of each file before it is searched.
	Clean func(io.Reader) io.Reader
}

// Line is a line of a file, or the beginning of a long one.
type Line struct {
	// Number counts from 1.
	Number int
	Text   string
	// Match reports that the pattern matches. Other lines are context.
	Match bool
}

// Searched is the result of a search.
type Searched struct {
	Files int
	Bytes int64
	// Complete is false if the search ended early.
	Complete bool
}

const (
	// maxSearched is the default of MaxBytes.
	maxSearched = 1 << 30
	// searchedLine is how much of a line is searched and returned, in bytes.
	searchedLine = 64 << 10
	// binaryBytes is how much of a file shows whether it is text: a NUL there means that it is not.
	binaryBytes = 8 << 10
)

// errEnough ends a search whose caller has enough.
var errEnough = errors.New("enough")

// Search calls found for the lines that match in the text files of a tree, file by file, with the absolute path of the
// file. It ends when found returns false. The search runs on this machine, over what the sandbox sends: the sandbox
// needs no program, and the syntax is the same everywhere. Links and files with a NUL at the beginning are skipped.
func Search(
	ctx context.Context, files Files, request SearchRequest, found func(file string, line Line) (more bool),
) (result Searched, err error) {
	request.MaxBytes = cmp.Or(request.MaxBytes, maxSearched)
	s := &searcher{
		ctx: ctx, files: files, request: request, found: found,
		globs: newGlobs(request.Globs), skip: newSkipped(request.Tree),
	}
	err = s.run()
	s.result.Complete = err == nil
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s.result, core.Wrap("search", request.Path, err)
}

type searcher struct {
	ctx     context.Context //nolint:containedctx // a searcher lives for one call
	files   Files
	request SearchRequest
	found   func(file string, line Line) bool
	globs   globs
	skip    *skipped
	result  Searched
}

func (s *searcher) run() error {
	info, err := s.files.Stat(s.ctx, s.request.Sandbox, s.request.Path)
	if err != nil {
		return err
	}
	if info.Mode.IsRegular() {
		return s.file(info.Path)
	}
	infos, err := s.files.ReadDir(s.ctx, s.request.Sandbox, s.request.Path) // a link to a directory, too
	if err != nil && !info.Mode.IsDir() {
		return s.file(info.Path)
	}
	if err != nil {
		return err
	}
	if err := s.skip.read(s.ctx, s.files, s.request.Tree, ".", infos); err != nil {
		return err
	}
	// A directory that is skipped can be most of the tree, such as .git. Then each other entry is read on its own. An
	// archive of a link has only the link.
	whole := info.Mode.IsDir()
	for _, info := range infos {
		whole = whole && (!info.Mode.IsDir() || !s.skip.skips(path.Base(info.Path), true))
	}
	if whole {
		return s.archive(s.request.Path)
	}
	for _, info := range infos {
		name := path.Base(info.Path)
		switch {
		case s.skip.skips(name, info.Mode.IsDir()):
		case info.Mode.IsDir():
			err = s.archive(info.Path)
		case info.Mode.IsRegular() && s.globs.selects(name, false):
			err = s.file(info.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file searches one file.
func (s *searcher) file(name string) error {
	content, err := s.files.ReadFile(s.ctx, s.request.Sandbox, name)
	if errors.Is(err, core.KindNotFound) && name != s.request.Path {
		return nil // it vanished
	}
	if err != nil {
		return err
	}
	return errors.Join(s.lines(name, content), content.Close())
}

// archive searches the files of a directory.
func (s *searcher) archive(dir string) (err error) {
	archive, err := s.files.Export(s.ctx, s.request.Sandbox, dir)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := archive.Close(); err == nil {
			err = closeErr
		}
	}()
	c := &copier{ctx: s.ctx, Request: Request{From: Endpoint{Sandbox: s.request.Sandbox, Path: dir}}}
	return c.entries(bufio.NewReaderSize(archive, copyBuffer), func(r *tar.Reader, header *tar.Header) error {
		if header.Typeflag != tar.TypeReg {
			return nil
		}
		file := path.Join(dir, header.Name) //nolint:gosec // nothing is written there
		name := relative(s.request.Path, file)
		if path.Base(name) == ignoreFile && !s.request.All && !s.skip.skipsPath(path.Dir(name), true) {
			s.skip.add(r, path.Dir(name)) // the files that it names come after it
			return nil
		}
		if s.skip.skipsPath(name, false) || !s.globs.selects(name, false) {
			return nil
		}
		return s.lines(file, r)
	})
}

// lines searches the content of a file.
func (s *searcher) lines(file string, content io.Reader) error {
	// One byte more than allowed shows that there is more. It bounds endless lines, too.
	content = io.LimitReader(content, s.request.MaxBytes+1-s.result.Bytes)
	if s.request.Clean != nil {
		content = s.request.Clean(content)
	}
	lines := bufio.NewReaderSize(until{s.ctx, content}, searchedLine)
	beginning, err := lines.Peek(binaryBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.result.Files++
	if bytes.IndexByte(beginning, 0) >= 0 {
		return nil
	}
	var before []Line // context for the next match
	after := 0        // lines that the last match still wants
	for number := 1; ; number++ {
		text, size, err := wholeLine(lines)
		s.result.Bytes += size
		if err != nil {
			if errors.Is(err, io.EOF) && s.result.Bytes <= s.request.MaxBytes {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return errEnough
			}
			return err
		}
		line := Line{Number: number, Text: string(text), Match: s.request.Pattern.Match(text)}
		switch {
		case line.Match:
			for _, earlier := range before {
				if !s.found(file, earlier) {
					return errEnough
				}
			}
			before, after = nil, s.request.Context
		case after > 0:
			after--
		default:
			if s.request.Context > 0 {
				before = append(before[max(0, len(before)-s.request.Context+1):], line)
			}
			continue
		}
		if !s.found(file, line) {
			return errEnough
		}
	}
}

// wholeLine reads a line without its end, at most searchedLine bytes of it, and returns the size of the whole. The text
// is valid until the next read.
func wholeLine(lines *bufio.Reader) (text []byte, size int64, err error) {
	text, err = lines.ReadSlice('\n')
	size = int64(len(text))
	if errors.Is(err, bufio.ErrBufferFull) {
		text = bytes.Clone(text)
		for errors.Is(err, bufio.ErrBufferFull) {
			var rest []byte
			rest, err = lines.ReadSlice('\n')
			size += int64(len(rest))
		}
	}
	if errors.Is(err, io.EOF) && size > 0 {
		err = nil
	}
	return bytes.TrimRight(text, "\r\n"), size, err
}
