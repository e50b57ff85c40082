package build

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// unpack writes the content of an archive into the directory to. It returns false if the file is no archive.
func (w *copyWriter) unpack(ctx context.Context, to string, file item) (bool, error) {
	if file.open == nil {
		return false, nil
	}
	content, err := file.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = content.Close() }()
	sum := sha256.New()
	read := io.TeeReader(content, sum)
	meter := layer.NewMeter(layer.DefaultLimits())
	packed := bufio.NewReader(meter.Packed(read))
	head, _ := packed.Peek(6)
	if bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}) {
		return false, errors.New("xz archives are not supported: use COPY, and unpack it in a RUN step")
	}
	var plain io.Reader
	if bytes.HasPrefix(head, []byte("BZh")) {
		plain = bzip2.NewReader(packed)
	} else {
		decompressed, err := layer.Decompress(packed)
		if err != nil {
			return false, nil //nolint:nilerr // a file that only begins like an archive
		}
		defer func() { _ = decompressed.Close() }()
		plain = decompressed
	}
	in := tar.NewReader(meter.Plain(plain))
	header, err := in.Next()
	if err != nil {
		if _, known := errors.AsType[*core.Error](err); known {
			return false, err
		}
		return false, nil // likewise
	}
	if err := w.parents(to); err != nil {
		return true, err
	}
	for ; err == nil; header, err = in.Next() {
		if err := ctx.Err(); err != nil {
			return true, err
		}
		if err := w.unpackEntry(to, header, in); err != nil {
			return true, err
		}
	}
	if !errors.Is(err, io.EOF) {
		return true, fmt.Errorf("the archive is damaged: %w", err)
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return true, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != file.sum {
		return true, errors.New("the archive changed while it was copied")
	}
	return true, nil
}

// unpackEntry writes one entry of an archive.
func (w *copyWriter) unpackEntry(to string, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	for part := range strings.SplitSeq(header.Name, "/") {
		if part == ".." {
			return fmt.Errorf("the archive has the entry %q, which leads out of it", header.Name)
		}
		if strings.HasPrefix(part, whiteout) {
			return fmt.Errorf("the archive has the entry %q: an image cannot have such a file", header.Name)
		}
	}
	//nolint:gosec // a name in a layer: nothing is written to this machine, and ".." was refused
	name := strings.TrimPrefix(path.Join(to, header.Name), "/")
	if name == strings.TrimPrefix(to, "/") && header.Typeflag == tar.TypeDir {
		return nil // the directory keeps its attributes
	}
	clean := tar.Header{
		Typeflag: header.Typeflag, Name: name, Linkname: header.Linkname, Size: header.Size, Mode: header.Mode & 0o7777,
		Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime, Devmajor: header.Devmajor, Devminor: header.Devminor,
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		clean.Typeflag = tar.TypeReg
	case tar.TypeLink:
		for part := range strings.SplitSeq(header.Linkname, "/") {
			if part == ".." {
				return fmt.Errorf("the archive has the link %q to %q, which leads out of it", header.Name, header.Linkname)
			}
		}
		//nolint:gosec // likewise
		clean.Linkname, clean.Size = strings.TrimPrefix(path.Join(to, header.Linkname), "/"), 0
	case tar.TypeDir, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		clean.Size = 0
	default:
		return fmt.Errorf("the archive has the entry %q of an unknown type", header.Name)
	}
	if w.owner != nil {
		clean.Uid, clean.Gid = w.owner[0], w.owner[1]
	}
	if w.mode >= 0 && clean.Typeflag != tar.TypeSymlink && clean.Typeflag != tar.TypeLink {
		clean.Mode = w.mode
	}
	if err := w.tar.WriteHeader(&clean); err != nil {
		return fmt.Errorf("the archive's entry %q: %w", header.Name, err)
	}
	if clean.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(w.tar, content)
	return err
}
