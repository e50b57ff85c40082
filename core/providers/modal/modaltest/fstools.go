package modaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// fsTool is the program that Modal's clients run for file operations. Here it is a part of the server, which runs its
// commands on the backend's file system.
const fsTool = "/__modal/.bin/modal-sandbox-fs-tools"

// readLimit is the largest file that the tool reads, in bytes.
const readLimit = 5 << 30

func isFSTool(argv []string) bool { return len(argv) > 0 && argv[0] == fsTool }

// fsCommand is one command of the tool; exactly one field is set.
type fsCommand struct {
	ListFiles     *fsPath
	MakeDirectory *fsPath
	ReadFile      *fsPath
	Remove        *fsPath
	Stat          *fsPath
	WriteFile     *fsPath
	Watch         *guest.Watch
}

type fsPath struct {
	Path      string `json:"path"`
	Parents   bool   `json:"parents"`
	Recursive bool   `json:"recursive"`
}

// fsEntry describes a file as the tool prints it.
type fsEntry struct {
	Name          string  `json:"name"`
	Path          string  `json:"path"`
	Type          string  `json:"type"`
	Size          int64   `json:"size"`
	Mode          uint32  `json:"mode"`
	Permissions   string  `json:"permissions"`
	Owner         string  `json:"owner"`
	Group         string  `json:"group"`
	ModifiedTime  float64 `json:"modified_time"`
	SymlinkTarget *string `json:"symlink_target"`
}

// fsFailure is the tool's message on stderr before it exits with 1.
type fsFailure struct {
	Kind    string `json:"error_kind"`
	Message string `json:"message"`
	Detail  string `json:"detail"`
}

func (f *fsFailure) Error() string { return f.Message }

// startFSTool runs a command of the tool as if it were a process.
func (s *Server) startFSTool(ctx context.Context, box *sandbox, c *command, argv []string) error {
	var parsed fsCommand
	if len(argv) != 2 || json.Unmarshal([]byte(argv[1]), &parsed) != nil {
		return status.Error(codes.InvalidArgument, "the file system tool takes one JSON command")
	}
	files, ok := s.opts.Backend.(core.FileSystem)
	if !ok {
		return status.Error(codes.Unimplemented, "the backend has no files")
	}
	if parsed.Watch != nil {
		return s.watch(ctx, box, c, files, *parsed.Watch)
	}
	stdin, feed, err := os.Pipe()
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	life, cancel := context.WithCancel(s.ctx)
	c.mu.Lock()
	c.started, c.cancel, c.stdin = true, cancel, feed
	c.mu.Unlock()
	s.active(box, 1, false)
	s.work.Go(func() {
		defer cancel()
		// A wait for input and a write of unread output must not outlive the sandbox.
		defer context.AfterFunc(life, func() {
			_ = stdin.Close()
			c.spoolsEnd()
		})()
		tool := &fsRun{files: files, id: box.backend.ID, stdin: stdin, stdout: c.stdout}
		err := tool.do(life, parsed)
		_ = stdin.Close()
		exit := core.Exit{}
		if err != nil {
			exit.Code = 1
			_ = json.NewEncoder(c.stderr).Encode(failureOf(err))
		}
		c.finish(exit, nil)
		s.active(box, -1, false)
		s.retire(box, c)
	})
	return nil
}

// fsRun is one run of the tool.
type fsRun struct {
	files  core.FileSystem
	id     string
	stdin  io.Reader
	stdout io.Writer
}

func (t *fsRun) do(ctx context.Context, c fsCommand) error {
	switch {
	case c.ListFiles != nil:
		return t.list(ctx, path.Clean(c.ListFiles.Path))
	case c.MakeDirectory != nil:
		return t.mkdir(ctx, path.Clean(c.MakeDirectory.Path), c.MakeDirectory.Parents)
	case c.ReadFile != nil:
		return t.read(ctx, path.Clean(c.ReadFile.Path))
	case c.Remove != nil:
		return t.remove(ctx, path.Clean(c.Remove.Path), c.Remove.Recursive)
	case c.Stat != nil:
		info, err := t.files.Stat(ctx, t.id, path.Clean(c.Stat.Path))
		if err != nil {
			return err
		}
		return json.NewEncoder(t.stdout).Encode(t.entry(ctx, info))
	case c.WriteFile != nil:
		return t.write(ctx, path.Clean(c.WriteFile.Path))
	}
	return &fsFailure{Kind: "Unknown", Message: "unknown command"}
}

func (t *fsRun) list(ctx context.Context, dir string) error {
	info, err := t.follow(ctx, dir)
	if err != nil {
		return err
	}
	if !info.Mode.IsDir() {
		return &fsFailure{Kind: "NotDirectory", Message: "not a directory"}
	}
	infos, err := t.files.ReadDir(ctx, t.id, info.Path)
	if err != nil {
		return err
	}
	entries := make([]fsEntry, 0, len(infos))
	for _, info := range infos {
		entry := t.entry(ctx, info)
		entry.Path = path.Join(dir, entry.Name)
		entries = append(entries, entry)
	}
	return json.NewEncoder(t.stdout).Encode(entries)
}

// follow resolves the links of a path and describes the target.
func (t *fsRun) follow(ctx context.Context, name string) (core.FileInfo, error) {
	for range 40 {
		info, err := t.files.Stat(ctx, t.id, name)
		if err != nil || info.Mode&fs.ModeSymlink == 0 {
			return info, err
		}
		if path.IsAbs(info.Link) {
			name = path.Clean(info.Link)
		} else {
			name = path.Join(path.Dir(name), info.Link)
		}
	}
	return core.FileInfo{}, &fsFailure{Kind: "Unknown", Message: "too many links"}
}

func (t *fsRun) mkdir(ctx context.Context, dir string, parents bool) error {
	err := t.files.Mkdir(ctx, t.id, dir, parents)
	if !errors.Is(err, core.KindConflict) {
		return err
	}
	if info, statErr := t.files.Stat(ctx, t.id, dir); statErr == nil {
		_ = info
		return &fsFailure{Kind: "PathAlreadyExists", Message: "path already exists"}
	}
	return &fsFailure{Kind: "NotDirectory", Message: "not a directory"}
}

func (t *fsRun) read(ctx context.Context, name string) error {
	info, err := t.follow(ctx, name)
	if err != nil {
		return err
	}
	if info.Mode.IsDir() {
		return &fsFailure{Kind: "IsDirectory", Message: "is a directory"}
	}
	if info.Size > readLimit {
		return &fsFailure{Kind: "FileTooLarge", Message: "file is too large"}
	}
	content, err := t.files.ReadFile(ctx, t.id, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(t.stdout, content)
	return errors.Join(err, content.Close())
}

func (t *fsRun) remove(ctx context.Context, name string, recursive bool) error {
	err := t.files.Remove(ctx, t.id, name, recursive)
	if errors.Is(err, core.KindConflict) {
		return &fsFailure{Kind: "DirectoryNotEmpty", Message: "directory is not empty"}
	}
	return err
}

func (t *fsRun) write(ctx context.Context, name string) error {
	err := t.files.WriteFile(ctx, t.id, name, t.stdin, core.WriteOptions{Parents: true})
	if !errors.Is(err, core.KindConflict) {
		return err
	}
	if info, statErr := t.follow(ctx, name); statErr == nil && info.Mode.IsDir() {
		return &fsFailure{Kind: "IsDirectory", Message: "is a directory"}
	}
	return &fsFailure{Kind: "NotDirectory", Message: "not a directory"}
}

func (t *fsRun) entry(ctx context.Context, info core.FileInfo) fsEntry {
	entry := fsEntry{
		Name: path.Base(info.Path), Path: info.Path, Type: "file", Size: info.Size, Mode: unixMode(info.Mode),
		Permissions: fmt.Sprintf("%04o", unixMode(info.Mode)&0o7777), ModifiedTime: unix(info.ModTime),
		Owner: t.nameOf(ctx, "/etc/passwd", info.UID), Group: t.nameOf(ctx, "/etc/group", info.GID),
	}
	switch {
	case info.Mode.IsDir():
		entry.Type = "directory"
	case info.Mode&fs.ModeSymlink != 0:
		entry.Type, entry.SymlinkTarget = "symlink", &info.Link
	}
	return entry
}

// nameOf returns the name of a number in the sandbox's own tables.
func (t *fsRun) nameOf(ctx context.Context, table string, id int) string {
	if id == 0 {
		return "root"
	}
	content, err := t.files.ReadFile(ctx, t.id, table)
	if err != nil {
		return strconv.Itoa(id)
	}
	text, _ := io.ReadAll(io.LimitReader(content, 1<<20))
	_ = content.Close()
	for line := range bytes.Lines(text) {
		if fields := bytes.Split(bytes.TrimSpace(line), []byte(":")); len(fields) > 2 &&
			string(fields[2]) == strconv.Itoa(id) {
			return string(fields[0])
		}
	}
	return strconv.Itoa(id)
}

// unixMode converts a mode to the form of stat(2).
func unixMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for _, pair := range []struct {
		mode fs.FileMode
		bit  uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if mode&pair.mode != 0 {
			bits |= pair.bit
		}
	}
	switch {
	case mode.IsDir():
		return bits | 0o040000
	case mode&fs.ModeSymlink != 0:
		return bits | 0o120000
	case mode.IsRegular():
		return bits | 0o100000
	case mode&fs.ModeNamedPipe != 0:
		return bits | 0o010000
	case mode&fs.ModeSocket != 0:
		return bits | 0o140000
	case mode&fs.ModeCharDevice != 0:
		return bits | 0o020000
	case mode&fs.ModeDevice != 0:
		return bits | 0o060000
	}
	return bits
}

// failureOf converts an error to the tool's form.
func failureOf(err error) *fsFailure {
	if failure, ok := errors.AsType[*fsFailure](err); ok {
		return failure
	}
	kind := "Unknown"
	switch core.KindOf(err) {
	case core.KindNotFound:
		kind = "NotFound"
	case core.KindUnauthorized:
		kind = "PermissionDenied"
	case core.KindConflict:
		kind = "NotDirectory"
	case core.KindInternal, core.KindUsage, core.KindUnsupported, core.KindUnavailable, core.KindTimeout,
		core.KindCanceled, core.KindExhausted:
	}
	return &fsFailure{Kind: kind, Message: err.Error()}
}
