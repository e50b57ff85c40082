package build

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// source is a file system to copy from: that of an image or of a stage.
type source struct {
	root    *erofs.Node
	content func(*erofs.Node) *io.SectionReader
	// file is the image's file. It is nil for a stage.
	file *os.File
}

// imageSource returns the files of an image for COPY --from and mounts, and the id of the image.
func (j *job) imageSource(ctx context.Context, ref string) (*source, error) {
	if known := j.images[ref]; known != nil {
		return known, nil
	}
	pulled, err := j.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(pulled.Path)
	if err != nil {
		return nil, err
	}
	root, err := erofs.Read(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	j.images[ref] = &source{root: root, file: file, content: func(n *erofs.Node) *io.SectionReader {
		return erofs.Content(file, n)
	}}
	return j.images[ref], nil
}

// match returns the files of a pattern, as COPY --from takes it.
func (s *source) match(pattern string) ([]match, error) {
	clean := path.Clean("/" + pattern)
	names := []string{clean}
	if strings.ContainsAny(clean, `*?[\`) {
		var err error
		if names, err = s.glob(clean); err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
	}
	var all []match
	for _, name := range names {
		n, err := erofs.Find(s.root, name, true)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such file in the source", pattern)
		}
		if err != nil {
			return nil, err
		}
		m := match{name: path.Base(name), dir: n.IsDir()}
		if err := s.add(&m, n, "", map[*erofs.Node]*string{}); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// glob returns the paths that match a pattern, sorted.
func (s *source) glob(pattern string) ([]string, error) {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			n, err := erofs.Find(s.root, dir, true)
			if err != nil || !n.IsDir() {
				continue
			}
			for name := range n.Children {
				matched, err := path.Match(part, name)
				if err != nil {
					return nil, err
				}
				if matched {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		slices.Sort(next)
		found = next
	}
	return found, nil
}

// add adds a file with all below it to a match. seen has the first name of each file.
func (s *source) add(m *match, n *erofs.Node, name string, seen map[*erofs.Node]*string) error {
	a := n.Attr()
	one := item{name: name, header: tar.Header{
		Mode: int64(a.Mode &^ erofs.TypeMask), Uid: int(a.UID), Gid: int(a.GID), ModTime: a.ModTime,
		Devmajor: int64(a.Major), Devminor: int64(a.Minor), Linkname: a.Target,
	}}
	switch a.Mode & erofs.TypeMask {
	case erofs.TypeFile:
		one.header.Typeflag, one.header.Size = tar.TypeReg, n.Size()
		one.open = func() (io.ReadCloser, error) { return io.NopCloser(s.content(n)), nil }
		if one.link = seen[n]; one.link == nil {
			sum := sha256.New()
			if _, err := io.Copy(sum, s.content(n)); err != nil {
				return err
			}
			one.sum = hex.EncodeToString(sum.Sum(nil))
			seen[n] = &one.name
		}
	case erofs.TypeDir:
		one.header.Typeflag = tar.TypeDir
	case erofs.TypeLink:
		one.header.Typeflag = tar.TypeSymlink
	case erofs.TypeChar:
		one.header.Typeflag = tar.TypeChar
	case erofs.TypeBlock:
		one.header.Typeflag = tar.TypeBlock
	case erofs.TypeFIFO:
		one.header.Typeflag = tar.TypeFifo
	default:
		return nil // a socket is of no use to anyone
	}
	if len(m.items) >= maxEntries {
		return fmt.Errorf("%s has more than %d files", m.name, int(maxEntries))
	}
	m.items = append(m.items, one)
	var names []string
	for child := range n.Children {
		names = append(names, child)
	}
	slices.Sort(names)
	for _, child := range names {
		if err := s.add(m, n.Child(child), path.Join(name, child), seen); err != nil {
			return err
		}
	}
	return nil
}

// inline returns the file of a here-document.
func inline(name, data string) match {
	sum := sha256.Sum256([]byte(data))
	return match{name: path.Base(name), items: []item{{
		header: tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()},
		sum:    hex.EncodeToString(sum[:]),
		open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(data))), nil },
	}}}
}
