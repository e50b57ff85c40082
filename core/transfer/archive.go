package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// maxRemembered bounds the memory for an archive's entries, in bytes. It suffices for some 700 000 directories and
// links.
const maxRemembered = 128 << 20

// remembered is the cost of one entry besides its names, in bytes.
const remembered = 128

// entries reads an archive of a sandbox, which may be hostile. take receives each entry. The names in its header are
// paths in the tree, and none goes through a symbolic link of the archive.
func (c *copier) entries(archive io.Reader, take func(*tar.Reader, *tar.Header) error) error {
	linked, seen, left := links{}, map[string]bool{}, maxRemembered
	for r := tar.NewReader(archive); ; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			// The archive's end is not the stream's end: only the latter shows whether the sandbox finished.
			_, err := io.Copy(io.Discard, until{c.ctx, archive})
			return err
		}
		if err != nil {
			return err
		}
		if isSparse(header) {
			return core.Errorf(core.KindUsage, "copy", header.Name, "the sandbox sent a sparse file")
		}
		if header.Name, err = localName(header.Name); err != nil {
			return err
		}
		if err := linked.check(header.Name); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir:
			if seen[header.Name] {
				return core.Errorf(core.KindUsage, "copy", header.Name, "the sandbox sent it twice")
			}
			seen[header.Name] = true
			left -= len(header.Name) + remembered
		case tar.TypeSymlink:
			linked[header.Name] = true
			left -= len(header.Name) + remembered
		case tar.TypeLink:
			if header.Linkname, err = localName(header.Linkname); err != nil {
				return err
			}
			if err := linked.check(header.Linkname); err != nil {
				return err
			}
			if linked[header.Linkname] { // it is another name of the link
				linked[header.Name] = true
			}
			left -= len(header.Name) + len(header.Linkname) + remembered
		}
		if left < 0 {
			return core.Errorf(
				core.KindExhausted, "copy", c.From.String(), "it has too many directories and links to be copied at once",
			).
				WithHint("copy the directories below it one by one")
		}
		if err := take(r, header); err != nil {
			return err
		}
	}
}

// until is a reader that fails once a context has ended.
type until struct {
	ctx context.Context //nolint:containedctx // io.Reader takes no context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// isSparse reports whether an entry describes more bytes than the archive has: a few of those could fill the disk with
// zeros. The keys are those of GNU tar's manual, "Storing Sparse Files".
func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// notFile records an entry that is neither a file, a directory nor a link.
func (c *copier) notFile(header *tar.Header) {
	if header.Typeflag != tar.TypeXGlobalHeader {
		c.notices.add(noticeKind, path.Clean(header.Name))
	}
}
