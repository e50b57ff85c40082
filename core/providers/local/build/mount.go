package build

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// secretsDir is the directory of secrets without a target.
const secretsDir = "/run/secrets"

// maxSecret bounds the size of one secret in bytes, as BuildKit does.
const maxSecret = 500 << 10

// mount is a --mount of RUN after the expansion of its variables.
type mount struct {
	*instructions.Mount

	// target is an absolute path. It is "" for a secret that is a variable.
	target string
	// id is the id of a secret or of a cache.
	id string
	// content are the files of a bind mount, once they were read.
	content *match
}

// checkMounts refuses what is not supported of RUN --mount. A variable in an option has no value yet.
func (p *plan) checkMounts(s *stage, before []*stage, c *instructions.RunCommand, o Options) error {
	if err := c.Expand(func(word string) (string, error) { return word, nil }); err != nil {
		return err
	}
	for _, m := range instructions.GetMounts(c) {
		name := "RUN --mount=type=" + string(m.Type)
		if m.UID != nil && *m.UID != 0 || m.GID != nil && *m.GID != 0 {
			return fmt.Errorf("%s: only root can own the mount", name)
		}
		switch m.Type {
		case instructions.MountTypeSecret:
			if _, given := o.Secrets[secretID(m)]; m.Required && !given && !strings.Contains(secretID(m), "$") {
				return fmt.Errorf("%s: the secret %s is required: give it with --secret id=%s", name, secretID(m), secretID(m))
			}
		case instructions.MountTypeCache:
			if m.From != "" || m.Source != "" {
				return fmt.Errorf("%s: from and source are not supported", name)
			}
			if m.Target == "" {
				return fmt.Errorf("%s needs a target", name)
			}
		case instructions.MountTypeBind:
			if m.Target == "" {
				return fmt.Errorf("%s needs a target", name)
			}
			if m.From == "" && o.Context == "" {
				return fmt.Errorf("%s: the build has no directory to mount", name)
			}
			if m.From == "" && leadsOut(m.Source) {
				return fmt.Errorf("%s: the source %s leads out of the build's directory", name, m.Source)
			}
			if m.From != "" {
				if err := p.source(s, before, m.From); err != nil {
					return err
				}
			}
		case instructions.MountTypeTmpfs, instructions.MountTypeSSH:
			return fmt.Errorf("%s is not supported", name)
		}
	}
	return nil
}

// secretID returns the id of a secret.
func secretID(m *instructions.Mount) string {
	switch {
	case m.CacheID != "":
		return m.CacheID
	case m.Source != "":
		return m.Source
	}
	return path.Base(m.Target)
}

// mounts returns the mounts of RUN, and adds secrets to run.
func (s *state) mounts(_ context.Context, c *instructions.RunCommand, run *Run) ([]*mount, error) {
	var all []*mount
	for _, m := range instructions.GetMounts(c) {
		one := &mount{Mount: m, target: m.Target, id: m.CacheID}
		switch m.Type { //nolint:exhaustive // the others need nothing here, or were refused
		case instructions.MountTypeSecret:
			one.id = secretID(m)
			value, given := s.job.Secrets[one.id]
			if m.Env != nil && m.Target == "" {
				name := *m.Env
				if name == "" {
					name = one.id
				}
				if !core.EnvName(name) {
					return nil, fmt.Errorf("%q is not an environment variable", name)
				}
				if given {
					if run.Secrets == nil {
						run.Secrets = map[string]core.SecretValue{}
					}
					run.Secrets[name] = value
				}
				one.target = ""
				all = append(all, one)
				continue
			}
			if one.target == "" {
				one.target = path.Join(secretsDir, path.Base(one.id))
			}
			if !given {
				break // the command sees that it is missing, and the step has the same key
			}
			if len(value.Reveal()) > maxSecret {
				return nil, fmt.Errorf("the secret %s is larger than %s", one.id, core.Bytes(maxSecret))
			}
			mode := uint32(0o400)
			if m.Mode != nil {
				mode = uint32(*m.Mode & 0o777)
			}
			one.target = s.absolute(one.target)
			run.SecretFiles = append(run.SecretFiles, SecretFile{Path: one.target, Value: value, Mode: mode})
		case instructions.MountTypeCache:
			if one.id == "" {
				one.id = path.Clean(s.absolute(m.Target))
			}
		}
		one.target = s.absolute(one.target)
		for _, never := range []string{"/proc", "/sys", "/dev"} {
			if one.target == "/" || one.target == never || strings.HasPrefix(one.target, never+"/") {
				return nil, fmt.Errorf("nothing can be mounted at %s", one.target)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func (s *state) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", s.config.WorkingDir, name)
}

// describe returns the mounts for the key of a step: the content of bind mounts, and no content of caches and secrets.
func (s *state) describe(ctx context.Context, mounts []*mount) ([]any, error) {
	var all []any
	for _, m := range mounts {
		keyed := map[string]any{"type": m.Type, "target": m.target, "id": m.id, "readonly": m.ReadOnly}
		if m.Env != nil {
			keyed["env"] = *m.Env
		}
		if m.Type == instructions.MountTypeBind {
			files, _, err := s.files(ctx, m.From)
			if err != nil {
				return nil, err
			}
			found, err := files(ctx, m.Source)
			if err != nil {
				return nil, err
			}
			if len(found) != 1 {
				return nil, fmt.Errorf("the source %s of a mount is not one file or directory", m.Source)
			}
			m.content = &found[0]
			keyed["content"] = (&copying{from: found}).described()
		}
		all = append(all, keyed)
	}
	return all, nil
}

// enter prepares the mounts of a command. leave ends them, and may be called again.
func (s *state) enter(ctx context.Context, run *Run, mounts []*mount) (leave func(), err error) {
	var undo []func()
	leave = func() {
		for _, one := range slices.Backward(undo) {
			one()
		}
		undo = nil
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	for _, m := range mounts {
		switch m.Type { //nolint:exhaustive // the others need nothing, or were refused
		case instructions.MountTypeBind:
			node, err := s.graft(ctx, m.content)
			if err != nil {
				return nil, err
			}
			unmount, err := s.tree.Mount(m.target, node)
			if err != nil {
				return nil, err
			}
			undo = append(undo, unmount)
		case instructions.MountTypeCache:
			dir, unlock, err := s.job.cache.directory(ctx, m)
			if err != nil {
				return nil, err
			}
			undo = append(undo, unlock)
			run.Caches = append(run.Caches, Cache{Source: dir, Target: m.target, ReadOnly: m.ReadOnly})
		}
	}
	return leave, nil
}

// graft copies files into the stage's file, and returns their root.
func (s *state) graft(ctx context.Context, m *match) (*erofs.Node, error) {
	nodes := map[string]*erofs.Node{}
	for _, one := range m.items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h := one.header
		attr := erofs.Attr{
			Mode: uint16(h.Mode & 0o7777), UID: uint32(h.Uid), GID: uint32(h.Gid), ModTime: h.ModTime, //nolint:gosec // ids
			Target: h.Linkname, Major: uint32(h.Devmajor), Minor: uint32(h.Devminor), //nolint:gosec // those of an image
		}
		node := nodes[""]
		switch {
		case one.link != nil:
			nodes[one.name] = nodes[*one.link]
		case h.Typeflag == tar.TypeReg:
			content, err := one.open()
			if err != nil {
				return nil, err
			}
			attr.Mode |= erofs.TypeFile
			nodes[one.name], err = s.tree.File(attr, content)
			if err := errors.Join(err, content.Close()); err != nil {
				return nil, err
			}
		default:
			attr.Mode |= map[byte]uint16{
				tar.TypeDir: erofs.TypeDir, tar.TypeSymlink: erofs.TypeLink, tar.TypeChar: erofs.TypeChar,
				tar.TypeBlock: erofs.TypeBlock, tar.TypeFifo: erofs.TypeFIFO,
			}[h.Typeflag]
			nodes[one.name] = erofs.NewNode(attr)
		}
		if one.name == "" {
			continue
		}
		if dir := path.Dir(one.name); dir != "." {
			node = nodes[dir]
		}
		if err := node.Add(path.Base(one.name), nodes[one.name]); err != nil {
			return nil, err
		}
	}
	return nodes[""], nil
}

// directory returns the directory of a cache. A cache that is not shared has one user at a time, until unlock.
func (c *cache) directory(ctx context.Context, m *mount) (dir string, unlock func(), err error) {
	sum := sha256.Sum256([]byte(m.id))
	name := hex.EncodeToString(sum[:])
	unlock = func() {}
	if m.CacheSharing == instructions.MountSharingLocked || m.CacheSharing == instructions.MountSharingPrivate {
		if unlock, err = c.locked(ctx, "cache-"+name); err != nil {
			return "", nil, err
		}
	}
	dir = filepath.Join(c.dir, cachesDir, name)
	mode := os.FileMode(0o755)
	if m.Mode != nil {
		mode = os.FileMode(*m.Mode & 0o777)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		unlock()
		return "", nil, err
	}
	return dir, unlock, os.Chmod(dir, mode)
}

// stubs returns the entries of a writable layer that belong to mounts: all below a target, the target itself, and the
// directories above it that exist only for it.
func (s *state) stubs(mounts []*mount, upper io.ReadSeeker) (skip func(string) bool, err error) {
	var targets []string
	for _, m := range mounts {
		if m.target == "" {
			continue
		}
		name, err := erofs.Canonical(s.tree.Root(), m.target)
		if err != nil {
			return nil, err
		}
		targets = append(targets, name)
	}
	if len(targets) == 0 {
		return func(string) bool { return false }, nil
	}
	mounted := func(name string) bool {
		return slices.ContainsFunc(targets, func(target string) bool {
			return name == target || strings.HasPrefix(name, target+"/")
		})
	}
	// Directories that the image lacks, and whether something else is in them.
	above := map[string]bool{}
	for _, target := range targets {
		for dir := path.Dir(target); dir != "."; dir = path.Dir(dir) {
			if _, err := erofs.Find(s.tree.Root(), dir, false); err != nil {
				above[dir] = false
			}
		}
	}
	if _, err := upper.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	for in := tar.NewReader(upper); ; {
		header, err := in.Next()
		if err != nil {
			break // FromOverlay returns the error
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if _, only := above[name]; only || mounted(name) {
			continue
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, only := above[dir]; only {
				above[dir] = true
			}
		}
	}
	return func(name string) bool {
		other, only := above[name]
		return mounted(name) || only && !other
	}, nil
}
