package build

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// copying is a COPY or an ADD after the expansion of its variables.
type copying struct {
	from []match
	// to is an absolute path. intoDir means that it is a directory, even if it does not exist.
	to           string
	intoDir      bool
	chown, chmod string
	// unpack replaces archives by their content.
	unpack bool
}

// copied describes a copied file for the key of a step. It has no modification time.
type copied struct {
	Name  string `json:"name"`
	Type  byte   `json:"type"`
	Mode  int64  `json:"mode"`
	Owner [2]int `json:"owner"`
	Link  string `json:"link,omitempty"`
	Sum   string `json:"sum,omitempty"`
	Major int64  `json:"major,omitempty"`
	Minor int64  `json:"minor,omitempty"`
}

// copy runs COPY and ADD. from is the stage or image of --from.
func (s *state) copy(
	ctx context.Context, c instructions.Command, of instructions.SourcesAndDest, from, chown, chmod string, unpack bool,
) error {
	if err := of.ExpandRaw(s.expand); err != nil {
		return err
	}
	if _, err := modeOf(chmod); err != nil {
		return err
	}
	what := &copying{
		to: path.Join("/", of.DestPath), chown: chown, chmod: chmod, unpack: unpack,
		intoDir: len(of.SourcePaths)+len(of.SourceContents) > 1 || strings.HasSuffix(of.DestPath, "/") ||
			path.Base(of.DestPath) == "." || of.DestPath == "",
	}
	if !path.IsAbs(of.DestPath) {
		what.to = path.Join("/", s.config.WorkingDir, of.DestPath)
	}
	files, parent, err := s.files(ctx, from)
	if err != nil {
		return err
	}
	find := func() error {
		for _, pattern := range of.SourcePaths {
			found, err := files(ctx, pattern)
			if err != nil {
				return err
			}
			what.intoDir = what.intoDir || len(found) > 1
			what.from = append(what.from, found...)
		}
		for _, content := range of.SourceContents {
			what.from = append(what.from, inline(content.Path, content.Data))
		}
		return nil
	}
	step := layerStep{
		line: line(c.Location()), title: s.job.titleOf(c),
		make: func(ctx context.Context, to io.Writer) error { return s.writeCopy(ctx, what, to) },
	}
	keyed := map[string]any{
		"copy": what.to, "into": what.intoDir, "chown": chown, "chmod": chmod, "unpack": unpack,
	}
	if parent != "" {
		// If the other stage is unchanged, its files are not read.
		keyed["stage"], keyed["paths"] = parent, of.SourcePaths
		if step.alias, err = keyOf(s.key, keyed); err != nil {
			return err
		}
		delete(keyed, "stage")
		delete(keyed, "paths")
	}
	step.content = func() (string, error) {
		if err := find(); err != nil {
			return "", err
		}
		keyed["into"], keyed["files"] = what.intoDir, what.described()
		return keyOf(s.key, keyed)
	}
	return s.layer(ctx, step)
}

// files returns how the sources of a COPY are found. parent is the key of the stage that they are from, or "".
func (s *state) files(
	ctx context.Context, from string,
) (files func(context.Context, string) ([]match, error), parent string, err error) {
	if from == "" {
		return func(_ context.Context, pattern string) ([]match, error) {
			if s.job.context == nil {
				return nil, errors.New("the build has no directory to copy from")
			}
			return s.job.context.match(pattern)
		}, "", nil
	}
	if stage := s.stage.from[from]; stage != nil {
		other := s.job.done[stage]
		return func(ctx context.Context, pattern string) ([]match, error) {
			if err := other.open(ctx); err != nil {
				return nil, err
			}
			return (&source{root: other.tree.Root(), content: other.tree.Content}).match(pattern)
		}, other.key, nil
	}
	image, err := s.job.imageSource(ctx, from)
	if err != nil {
		return nil, "", err
	}
	return func(_ context.Context, pattern string) ([]match, error) { return image.match(pattern) }, "", nil
}

// described returns the content for the key.
func (c *copying) described() map[string][]copied {
	all := map[string][]copied{}
	for i, m := range c.from {
		var list []copied
		for _, one := range m.items {
			d := copied{
				Name: one.name, Type: one.header.Typeflag, Mode: one.header.Mode,
				Owner: [2]int{one.header.Uid, one.header.Gid}, Link: one.header.Linkname, Sum: one.sum,
				Major: one.header.Devmajor, Minor: one.header.Devminor,
			}
			if one.link != nil {
				d.Link = "=" + *one.link
			}
			list = append(list, d)
		}
		all[fmt.Sprintf("%d %s", i, m.name)] = list
	}
	return all
}

// whiteout begins the names of marks for removed files in layers.
const whiteout = ".wh."

// modeOf parses --chmod. -1 is none.
func modeOf(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o7777 {
		return 0, fmt.Errorf("--chmod=%s: only octal modes such as 755 are supported", text)
	}
	return int64(mode), nil
}

// writeCopy writes the layer of a copy.
func (s *state) writeCopy(ctx context.Context, c *copying, to io.Writer) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	mode, err := modeOf(c.chmod)
	if err != nil {
		return err
	}
	w := &copyWriter{tar: tar.NewWriter(to), root: s.tree.Root(), mode: mode, written: map[string]bool{}}
	if c.chown != "" {
		if w.owner, err = s.ownerOf(c.chown); err != nil {
			return fmt.Errorf("--chown=%s: %w", c.chown, err)
		}
	}
	for _, m := range c.from {
		if err := w.copy(ctx, c, m); err != nil {
			return err
		}
	}
	return w.tar.Close()
}

// copyWriter writes a layer.
type copyWriter struct {
	tar *tar.Writer
	// root has the files below the layer.
	root  *erofs.Node
	mode  int64
	owner *[2]int
	// written are the directories in the layer.
	written map[string]bool
}

// copy writes one source.
func (w *copyWriter) copy(ctx context.Context, c *copying, m match) error {
	to := c.to
	if m.dir || c.intoDir {
		name, err := erofs.Canonical(w.root, to)
		if err != nil {
			return fmt.Errorf("%s is no directory in the image", to)
		}
		to = "/" + name
	}
	there, err := erofs.Find(w.root, to, true)
	isDir := err == nil && there.IsDir() || w.written[to]
	switch {
	case m.dir && err == nil && !there.IsDir():
		return fmt.Errorf("%s is no directory in the image, so no directory can be copied there", to)
	case c.intoDir && err == nil && !there.IsDir():
		return fmt.Errorf("%s is no directory in the image", to)
	}
	if c.unpack && !m.dir {
		unpacked, err := w.unpack(ctx, to, m.items[0])
		if err != nil || unpacked {
			return err
		}
	}
	if !m.dir && (c.intoDir || isDir) {
		to = path.Join(to, m.name)
	}
	if err := w.parents(path.Dir(to)); err != nil {
		return err
	}
	for _, one := range m.items {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(to, one.name)
		header := one.header
		if one.link != nil {
			header = tar.Header{
				Typeflag: tar.TypeLink, Mode: header.Mode, Linkname: strings.TrimPrefix(path.Join(to, *one.link), "/"),
			}
		}
		if one.name == "" && header.Typeflag == tar.TypeDir {
			// As in BuildKit, the target has no attributes of the source: it keeps its own, or is a new directory.
			if err := w.parents(to); err != nil {
				return err
			}
			continue
		}
		if err := w.write(name, header, one); err != nil {
			return err
		}
	}
	return nil
}

// parents writes the missing directories of a path.
func (w *copyWriter) parents(dir string) error {
	if dir == "/" || w.written[dir] {
		return nil
	}
	if there, err := erofs.Find(w.root, dir, true); err == nil {
		if !there.IsDir() {
			return fmt.Errorf("%s is no directory in the image", dir)
		}
		return nil
	}
	// A link may lead to a directory that is missing. It stays.
	name, err := erofs.Canonical(w.root, dir)
	if err != nil {
		return fmt.Errorf("%s is no directory in the image", dir)
	}
	dir = "/" + name
	if err := w.parents(path.Dir(dir)); err != nil {
		return err
	}
	return w.write(dir, tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Now()}, item{})
}

// write writes one entry.
func (w *copyWriter) write(name string, header tar.Header, one item) error {
	there, err := erofs.Find(w.root, name, false)
	if header.Typeflag == tar.TypeDir {
		followed, followErr := erofs.Find(w.root, name, true)
		switch {
		case err == nil && !there.IsDir() && followErr == nil && followed.IsDir():
			return nil // a link to a directory stays
		case err == nil && !there.IsDir():
			return fmt.Errorf("%s is no directory in the image, so no directory can be copied there", name)
		}
		w.written[name] = true
	} else if err == nil && there.IsDir() {
		return fmt.Errorf("%s is a directory in the image, so no file can be copied there", name)
	}
	if strings.HasPrefix(path.Base(name), whiteout) {
		return fmt.Errorf("%s: names that begin with %q have a meaning in layers", name, whiteout)
	}
	header.Name = strings.TrimPrefix(name, "/")
	if header.Name == "" {
		header.Name = "./"
	}
	if w.owner != nil {
		header.Uid, header.Gid = w.owner[0], w.owner[1]
	}
	if w.mode >= 0 && (one.open != nil || one.header.Typeflag == tar.TypeDir) {
		header.Mode = w.mode
	}
	if err := w.tar.WriteHeader(&header); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	content, err := one.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, sum), io.LimitReader(content, header.Size))
	if err != nil {
		return err
	}
	if n != header.Size || hex.EncodeToString(sum.Sum(nil)) != one.sum {
		return fmt.Errorf("%s changed while it was copied", name)
	}
	return nil
}

// maxAccounts bounds the files with the names of users and groups, in bytes.
const maxAccounts = 1 << 20

// ownerOf returns the ids of "user", "uid", "user:group" or "uid:gid". Names are those of the image.
func (s *state) ownerOf(text string) (*[2]int, error) {
	user, group, hasGroup := strings.Cut(text, ":")
	uid, gid, err := s.account("/etc/passwd", user)
	if err != nil {
		return nil, err
	}
	if !hasGroup {
		if _, err := strconv.Atoi(user); err == nil {
			gid = uid // as Docker does for a number
		}
		return &[2]int{uid, gid}, nil
	}
	gid, _, err = s.account("/etc/group", group)
	return &[2]int{uid, gid}, err
}

// account returns the id in the third field of an entry, and the number in the fourth.
func (s *state) account(file, name string) (id, next int, err error) {
	if id, err := strconv.ParseUint(name, 10, 32); err == nil {
		if id >= math.MaxUint32 {
			return 0, 0, fmt.Errorf("%s is no id", name)
		}
		return int(id), 0, nil
	}
	if n, err := erofs.Find(s.tree.Root(), file, true); err == nil && n.IsFile() {
		lines := bufio.NewScanner(io.LimitReader(s.tree.Content(n), maxAccounts))
		for lines.Scan() {
			fields := strings.Split(lines.Text(), ":")
			if len(fields) < 3 || fields[0] != name {
				continue
			}
			id, err := strconv.ParseUint(fields[2], 10, 32)
			if err != nil {
				continue
			}
			if len(fields) > 3 {
				next, _ = strconv.Atoi(fields[3])
			}
			return int(id), next, nil
		}
	}
	return 0, 0, core.Errorf(core.KindUsage, "local.build", name, "the image's %s has no %q", file, name)
}
