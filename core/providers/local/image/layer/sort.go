package layer

import (
	"archive/tar"
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// Sort writes the entries of a layer in the order of their paths, so that the same files always give the same bytes.
// The first name of a file with several names has the content. KindUsage: the layer is damaged.
func Sort(to io.Writer, layer io.ReadSeeker) error {
	entries, err := indexed(layer)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b indexedEntry) int { return cmp.Compare(a.name, b.name) })
	first := map[int64]string{}
	out := tar.NewWriter(to)
	for _, e := range entries {
		if _, err := layer.Seek(e.header, io.SeekStart); err != nil {
			return err
		}
		in := tar.NewReader(layer)
		header, err := in.Next()
		if err != nil {
			return damaged(e.name, err)
		}
		header.Name = e.name
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if e.name == "" {
			header.Name = "./"
		}
		if e.shared {
			if name, written := first[e.header]; written {
				header = &tar.Header{Typeflag: tar.TypeLink, Name: e.name, Linkname: name, Mode: header.Mode}
			} else {
				first[e.header] = e.name
			}
		}
		header.Format = tar.FormatUnknown
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := io.CopyN(out, in, header.Size); err != nil {
			return damaged(e.name, err)
		}
	}
	return out.Close()
}

// indexedEntry is an entry of a layer.
type indexedEntry struct {
	// name is a clean path without a leading slash; "" is the root directory.
	name string
	// header is the offset of the file's header. Names of the same file have the same offset.
	header int64
	// shared means that the file has several names.
	shared bool
}

// indexed returns the entries of a layer.
func indexed(layer io.ReadSeeker) ([]indexedEntry, error) {
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var entries []indexedEntry
	places := map[string]int{}
	in := tar.NewReader(layer)
	last, at := "", int64(0)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, damaged(last, err)
		}
		last = header.Name
		e := indexedEntry{name: strings.TrimPrefix(path.Clean("/"+header.Name), "/"), header: at}
		if header.Typeflag == tar.TypeLink {
			place, ok := places[strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")]
			if !ok {
				return nil, refused(last, "the target of the hard link is not in the layer")
			}
			entries[place].shared, e.shared, e.header = true, true, entries[place].header
		} else {
			places[e.name] = len(entries)
		}
		entries = append(entries, e)
		if at, err = layer.Seek(0, io.SeekCurrent); err != nil {
			return nil, err
		}
		const block = 512
		if header.Typeflag == tar.TypeReg {
			at += (header.Size + block - 1) / block * block
		}
	}
}
