package files

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modal-labs/modal-client/go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-0724f904/sb/core"
)

// fsTool is the program that Modal adds to each sandbox for its SDKs' filesystem API. It takes one command as JSON;
// data goes over stdin and stdout. The SDK's own methods need whole files in memory or on disk, so this package runs
// the tool directly.
const fsTool = "/__modal/.bin/modal-sandbox-fs-tools"

// toolPath is the argument of most of its commands.
type toolPath struct {
	Path      string `json:"path"`
	Parents   *bool  `json:"parents,omitempty"`
	Recursive *bool  `json:"recursive,omitempty"`
}

// Commands of the tool.
const (
	toolList   = "ListFiles"
	toolMkdir  = "MakeDirectory"
	toolRead   = "ReadFile"
	toolRemove = "Remove"
	toolStat   = "Stat"
	toolWrite  = "WriteFile"
)

// toolArgv returns the command line of one command.
func toolArgv(command string, argument any) []string {
	text, _ := json.Marshal(map[string]any{command: argument})
	return []string{fsTool, string(text)}
}

// speakable reports whether the tool can name a path: its commands are JSON, and so UTF-8.
func speakable(path string) bool { return utf8.ValidString(path) }

// toolFailure is the tool's message on stderr before it exits with 1.
type toolFailure struct {
	Kind    string `json:"error_kind"`
	Message string `json:"message"`
}

// toolVerdict is the Verdict for the tool. It classifies by the tool's own kind of error.
func toolVerdict(op, subject string, exit core.Exit, complaints []byte) error {
	if exit.Code == 0 {
		return nil
	}
	var failure toolFailure
	if json.Unmarshal(complaints, &failure) != nil || failure.Kind == "" {
		if exit.Code == 126 || exit.Code == 127 {
			return core.Errorf(core.KindUnsupported, "modal."+op, subject,
				"Modal's file tool cannot be run in this sandbox: %s", exit.Message)
		}
		return core.Errorf(core.KindInternal, "modal."+op, subject, "Modal's file tool ended with code %d: %s",
			exit.Code, strings.TrimSpace(string(complaints)))
	}
	return core.Errorf(toolKind(failure.Kind), "modal."+op, subject, "%s", failure.Message)
}

// tooLarge is the tool's error kind for files above 5 GiB.
const tooLarge = "FileTooLarge"

func toolKind(kind string) core.Kind {
	switch kind {
	case "NotFound":
		return core.KindNotFound
	case "IsDirectory", "NotDirectory", "IsFile", "PathAlreadyExists", "AlreadyExists", "DirectoryNotEmpty":
		return core.KindConflict
	case "PermissionDenied":
		return core.KindUnauthorized
	case "NotSupported":
		return core.KindUnsupported
	case tooLarge, "StorageFull", "QuotaExceeded":
		return core.KindExhausted
	}
	return core.KindInternal
}

// decodeInfo reads one entry of the tool's. Owners are names there; numbers looks them up.
func decodeInfo(entry sdk.FileInfo, numbers *owners) core.FileInfo {
	seconds, fraction := math.Modf(entry.ModifiedTime)
	info := core.FileInfo{
		Path: entry.Path, Size: entry.Size, Mode: fileMode(entry.Mode),
		ModTime: time.Unix(int64(seconds), int64(fraction*1e9)),
		UID:     numbers.users.number(entry.Owner), GID: numbers.groups.number(entry.Group),
	}
	if entry.SymlinkTarget != nil {
		info.Link = *entry.SymlinkTarget
	}
	return info
}

// fileMode converts a mode of stat(2).
func fileMode(unix uint32) fs.FileMode {
	mode := fs.FileMode(unix & 0o777)
	for _, bit := range []struct {
		unix uint32
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if unix&bit.unix != 0 {
			mode |= bit.mode
		}
	}
	switch unix & 0o170000 {
	case 0o040000:
		mode |= fs.ModeDir
	case 0o120000:
		mode |= fs.ModeSymlink
	case 0o010000:
		mode |= fs.ModeNamedPipe
	case 0o140000:
		mode |= fs.ModeSocket
	case 0o060000:
		mode |= fs.ModeDevice
	case 0o020000:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	return mode
}

// owners are a sandbox's users and groups.
type owners struct{ users, groups accounts }

// accounts are numbers by name.
type accounts map[string]int

// number returns an owner's number, or -1 if the sandbox's tables do not have the name.
func (a accounts) number(name string) int {
	if name == "root" {
		return 0
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n
	}
	if n, known := a[name]; known {
		return n
	}
	return -1
}

// owners reads the sandbox's tables if one of the entries needs them.
func (f *Files) owners(ctx context.Context, id string, entries []sdk.FileInfo) (*owners, error) {
	none := &owners{}
	for _, entry := range entries {
		if none.users.number(entry.Owner) < 0 || none.groups.number(entry.Group) < 0 {
			return f.readOwners(ctx, id)
		}
	}
	return none, nil
}

func (f *Files) readOwners(ctx context.Context, id string) (*owners, error) {
	read := func(table string, into *accounts) error {
		text, err := f.programs.Answer(ctx, id, "stat", table, toolArgv(toolRead, toolPath{Path: table}), toolVerdict)
		if errors.Is(err, core.KindNotFound) {
			return nil
		}
		*into = parseAccounts(string(text))
		return err
	}
	found := &owners{}
	var tables errgroup.Group
	tables.Go(func() error { return read("/etc/passwd", &found.users) })
	tables.Go(func() error { return read("/etc/group", &found.groups) })
	return found, tables.Wait()
}

// parseAccounts reads lines of NAME:x:NUMBER:… (passwd(5), group(5)).
func parseAccounts(text string) accounts {
	found := accounts{}
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(line, ":", 4); len(fields) >= 3 {
			if n, err := strconv.Atoi(strings.TrimSpace(fields[2])); err == nil {
				found[fields[0]] = n
			}
		}
	}
	return found
}

// tool runs a command of the tool that has no body.
func (f *Files) tool(ctx context.Context, id, op, name, command string, argument toolPath) ([]byte, error) {
	argument.Path = name
	return f.programs.Answer(ctx, id, op, name, toolArgv(command, argument), toolVerdict)
}

// toolStat describes one file.
func (f *Files) toolStat(ctx context.Context, id, name string) (core.FileInfo, error) {
	text, err := f.tool(ctx, id, "stat", name, toolStat, toolPath{})
	if err != nil {
		return core.FileInfo{}, err
	}
	var entry sdk.FileInfo
	if err := json.Unmarshal(text, &entry); err != nil {
		return core.FileInfo{}, core.Errorf(core.KindInternal, "modal.stat", name,
			"the answer of Modal's file tool is damaged: %w", err)
	}
	numbers, err := f.owners(ctx, id, []sdk.FileInfo{entry})
	if err != nil {
		return core.FileInfo{}, err
	}
	info := decodeInfo(entry, numbers)
	info.Path = name
	return info, nil
}

// toolReadDir lists a directory. whole is false when it has names that are not UTF-8.
func (f *Files) toolReadDir(ctx context.Context, id, dir string) (infos []core.FileInfo, whole bool, err error) {
	text, err := f.tool(ctx, id, "readdir", dir, toolList, toolPath{})
	if err != nil {
		return nil, false, err
	}
	var entries []sdk.FileInfo
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, false, core.Errorf(core.KindInternal, "modal.readdir", dir,
			"the answer of Modal's file tool is damaged: %w", err)
	}
	for _, entry := range entries {
		if strings.ContainsRune(entry.Name, utf8.RuneError) {
			return nil, false, nil
		}
	}
	numbers, err := f.owners(ctx, id, entries)
	if err != nil {
		return nil, false, err
	}
	infos = make([]core.FileInfo, len(entries))
	for i, entry := range entries {
		infos[i] = decodeInfo(entry, numbers)
		infos[i].Path = path.Join(dir, entry.Name)
	}
	return infos, true, nil
}
