package layer

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"
)

// overlayOpaque marks a directory of a writable layer that hides the entries below it.
const overlayOpaque = "SCHILY.xattr.trusted.overlay.opaque"

// FromOverlay copies the archive of a sandbox's writable layer as a layer of an image. Removed files become whiteouts.
// It leaves out the paths for which skip returns true, which has a clean path without a leading slash. Modification
// times have whole seconds. KindUsage: the archive is damaged, or has a file that a layer cannot have.
func FromOverlay(to io.Writer, archive io.Reader, skip func(name string) bool) error {
	in, out := tar.NewReader(archive), tar.NewWriter(to)
	removed := map[string]bool{}
	last := ""
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return damaged(last, err)
		}
		last = header.Name
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if name != "" && skip(name) {
			continue
		}
		dir, base := path.Split(name)
		if strings.HasPrefix(base, whiteout) {
			return refused("/"+name, "an image cannot have a file whose name begins with %q", whiteout)
		}
		target := strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")
		switch {
		case header.Typeflag == tar.TypeChar && header.Devmajor == 0 && header.Devminor == 0,
			header.Typeflag == tar.TypeLink && removed[target]:
			// Marks of removed files may share an inode. The archive then has links to the first mark.
			removed[name] = true
			header = &tar.Header{Typeflag: tar.TypeReg, Name: dir + whiteout + base, Mode: 0o600}
		case header.Typeflag == tar.TypeLink:
			header = &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: header.Mode}
		default:
			hides := header.Typeflag == tar.TypeDir && header.PAXRecords[overlayOpaque] == "y"
			header.Name, header.PAXRecords, header.Format = name, nil, tar.FormatUnknown
			if header.Typeflag == tar.TypeDir {
				header.Name += "/"
			}
			if name == "" {
				header.Name = "./"
			}
			if hides {
				mark := &tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + opaque, Mode: 0o600}
				if err := out.WriteHeader(mark); err != nil {
					return err
				}
			}
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || header.Size == 0 {
			continue
		}
		//nolint:gosec // the sandbox's limit of disk space bounds the layer
		if _, err := io.Copy(out, in); err != nil {
			return damaged(last, err)
		}
	}
}
