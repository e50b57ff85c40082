package tools

import (
	"context"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
)

// rootsID is the id of the request for the client's roots.
const rootsID = "roots"

// allowed returns the host directories that a call may access.
func (c *Call) allowed(ctx context.Context) ([]string, error) {
	dirs := c.Host.Options.AllowPaths
	if !c.Host.Options.UseRoots || c.Capabilities(ctx).Roots == nil {
		return dirs, nil
	}
	known := c.Session.KnownRoots()
	if known == nil {
		answer := server.RootsResponse(c.Request.Params.InputResponses, rootsID)
		_, can := server.ClientSessionFromContext(ctx).(server.SessionWithRoots)
		switch {
		case answer != nil:
		case can || server.IsModernRequest(ctx):
			return nil, &InputNeeded{server.NewInputRequestBuilder("").Roots(rootsID)}
		default:
			return dirs, nil
		}
		roots := rootDirs(answer)
		c.Session.SetRoots(&roots)
		known = &roots
	}
	return append(slices.Clip(dirs), *known...), nil
}

func rootDirs(answer *mcp.ListRootsResult) []string {
	var dirs []string
	for _, root := range answer.Roots {
		if u, err := url.Parse(root.URI); err == nil && u.Scheme == "file" && filepath.IsAbs(u.Path) {
			dirs = append(dirs, filepath.Clean(u.Path))
		}
	}
	return dirs
}

// hostPath opens the allowed directory that contains a host path. No link and no ".." leads out of it. The caller
// closes root. It requests the client's roots only if no other directory allows the path.
func (c *Call) hostPath(ctx context.Context, name string) (root *os.Root, relative string, err error) {
	if root, relative, err = openBelow(c.Host.Options.AllowPaths, name); root != nil || err != nil {
		return root, relative, err
	}
	dirs, err := c.allowed(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(dirs) == 0 {
		return nil, "", core.Errorf(
			core.KindUnauthorized, "transfer", "", "no directory of this machine is open to this server",
		).
			WithHint("write content with file_write, or ask the user to start the server with --allow-path DIR")
	}
	if root, relative, err = openBelow(dirs, name); root != nil || err != nil {
		return root, relative, err
	}
	return nil, "", core.Errorf(
		core.KindUnauthorized, "transfer", "", "%s is outside the directories that are open to this server", name,
	).
		WithHint("the open directories are %s", strings.Join(dirs, ", "))
}

// CompleteHostPath returns the paths of this machine that begin with typed, or more of them, in the directories that
// the call may access. It asks the client for nothing. A directory ends with a slash. A read-only caller gets none, as
// push and pull are closed to it.
func (c *Call) CompleteHostPath(typed string) []string {
	if c.Identity.ReadOnly {
		return nil
	}
	dirs := c.Host.Options.AllowPaths
	if roots := c.Session.KnownRoots(); c.Host.Options.UseRoots && roots != nil {
		dirs = append(slices.Clip(dirs), *roots...)
	}
	const slash = string(filepath.Separator)
	var paths []string
	for _, dir := range dirs {
		if strings.HasPrefix(dir, typed) {
			paths = append(paths, strings.TrimSuffix(dir, slash)+slash)
		}
	}
	parent, _ := filepath.Split(typed)
	if parent == "" {
		return paths
	}
	root, relative, err := openBelow(dirs, parent)
	if root == nil || err != nil {
		return paths
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(relative))
	if err != nil {
		return paths
	}
	for _, entry := range entries {
		name := parent + entry.Name()
		if entry.IsDir() {
			name += slash
		}
		paths = append(paths, name)
	}
	return paths
}

// openBelow opens the directory that contains a path. A relative path is resolved in the first directory. root is nil
// if none contains the path.
func openBelow(dirs []string, name string) (root *os.Root, relative string, err error) {
	if !filepath.IsAbs(name) && len(dirs) > 0 {
		name = filepath.Join(dirs[0], name)
	}
	name = filepath.Clean(name)
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		for _, base := range append([]string{absolute}, evaluated(absolute)...) {
			relative, err := filepath.Rel(base, name)
			if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
				continue
			}
			root, err := os.OpenRoot(absolute)
			if err != nil {
				return nil, "", core.Errorf(core.KindOf(err), "transfer", dir, "the allowed directory cannot be opened: %w", err)
			}
			return root, relative, nil
		}
	}
	return nil, "", nil
}

// evaluated returns dir without symbolic links, if that is another path: users may name either.
func evaluated(dir string) []string {
	if physical, err := filepath.EvalSymlinks(dir); err == nil && physical != dir {
		return []string{physical}
	}
	return nil
}
