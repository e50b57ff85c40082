package service

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// files resolves ref and path for one operation on a sandbox's files. A relative
// path begins at the sandbox's workdir.
func (s *base) files(
	ctx context.Context, op, ref, name string, recorded bool, do func(core.FileSystem, string, string) error,
) error {
	run := func(sb core.Sandbox, _ core.Provider) error {
		fsys, err := capable[core.FileSystem](s, sb.Provider, op)
		if err != nil {
			return err
		}
		name, err := sandboxPath(op, sb, name)
		if err != nil {
			return err
		}
		return core.Wrap(op, name, do(fsys, sb.ID, name))
	}
	if recorded {
		return s.act(ctx, op, ref, map[string]any{"path": name}, run)
	}
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	return about(op, ref, sb, run(sb, p))
}

// sandboxPath is a path as providers take it.
func sandboxPath(op string, sb core.Sandbox, name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) || len(name) > core.MaxPath {
		return "", core.Errorf(core.KindUsage, op, "", "%q is not a path", name)
	}
	if !path.IsAbs(name) {
		name = path.Join("/", sb.Spec.Workdir, name)
	}
	return path.Clean(name), nil
}

// Stat describes a file; a symbolic link is not followed. The path of the description is name made absolute, never one
// that the sandbox chose.
func (s Files) Stat(ctx context.Context, ref, name string) (info core.FileInfo, err error) {
	err = s.files(ctx, "stat", ref, name, false, func(fsys core.FileSystem, id, p string) error {
		if info, err = fsys.Stat(ctx, id, p); err != nil {
			return err
		}
		return core.CheckFile(p, info)
	})
	return info, err
}

// ReadDir returns a directory's entries, sorted by path. Each is directly in the directory.
func (s Files) ReadDir(ctx context.Context, ref, name string) (infos []core.FileInfo, err error) {
	err = s.files(ctx, "ls", ref, name, false, func(fsys core.FileSystem, id, p string) error {
		if infos, err = fsys.ReadDir(ctx, id, p); err != nil {
			return err
		}
		return core.CheckListing(p, infos)
	})
	return infos, err
}

// ReadFile returns a regular file's content. The caller closes it.
func (s Files) ReadFile(ctx context.Context, ref, name string) (content io.ReadCloser, err error) {
	err = s.files(ctx, "read", ref, name, true, func(fsys core.FileSystem, id, p string) error {
		content, err = fsys.ReadFile(ctx, id, p)
		return err
	})
	return content, err
}

// WriteFile creates or replaces a file at once.
func (s Files) WriteFile(ctx context.Context, ref, name string, content io.Reader, opts core.WriteOptions) error {
	return s.files(ctx, "write", ref, name, true, func(fsys core.FileSystem, id, p string) error {
		return fsys.WriteFile(ctx, id, p, content, opts)
	})
}

// Mkdir makes a directory.
func (s Files) Mkdir(ctx context.Context, ref, name string, parents bool) error {
	return s.files(ctx, "mkdir", ref, name, true, func(fsys core.FileSystem, id, p string) error {
		return fsys.Mkdir(ctx, id, p, parents)
	})
}

// Remove removes a file or an empty directory, or with recursive a whole tree.
func (s Files) Remove(ctx context.Context, ref, name string, recursive bool) error {
	return s.files(ctx, "rm", ref, name, true, func(fsys core.FileSystem, id, p string) error {
		if p == "/" {
			return core.Errorf(core.KindUsage, "rm", "", "the root directory cannot be removed")
		}
		return fsys.Remove(ctx, id, p, recursive)
	})
}

// Export streams a file or directory as a tar archive. The caller closes it.
func (s Files) Export(ctx context.Context, ref, name string) (archive io.ReadCloser, err error) {
	err = s.files(ctx, "pull", ref, name, true, func(fsys core.FileSystem, id, p string) error {
		archive, err = fsys.Export(ctx, id, p)
		return err
	})
	return archive, err
}

// Import unpacks a tar archive into an existing directory.
func (s Files) Import(ctx context.Context, ref, dir string, archive io.Reader, opts core.ImportOptions) error {
	return s.files(ctx, "push", ref, dir, true, func(fsys core.FileSystem, id, p string) error {
		return fsys.Import(ctx, id, p, archive, opts)
	})
}
