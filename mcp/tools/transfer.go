package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// PushIn is the input of push.
type PushIn struct {
	Sandbox string   `json:"sandbox"`
	Local   string   `json:"local_path" jsonschema:"file or directory"`
	Path    string   `json:"path" jsonschema:"target; an existing directory gets the copy inside it"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"as in .gitignore; files in .gitignore are always left out"`
}

// PullIn is the input of pull.
type PullIn struct {
	Sandbox string `json:"sandbox"`
	Path    string `json:"path"`
	Local   string `json:"local_path" jsonschema:"target; an existing directory gets the copy inside it"`
	Replace bool   `json:"replace,omitempty" jsonschema:"replaces an existing target"`
}

// TransferOut is the result of a copy.
type TransferOut struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	// Warnings name everything that was not copied exactly.
	Warnings []string `json:"warnings,omitempty"`
}

// Text implements texter.
func (o TransferOut) Text() string {
	lines := []string{fmt.Sprintf("copied %d files, %d bytes: %s to %s", o.Files, o.Bytes, o.Source, o.Destination)}
	for _, warning := range o.Warnings {
		lines = append(lines, "warning: "+warning)
	}
	return strings.Join(lines, "\n")
}

func transferTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "push", Title: "Copy into a sandbox", Toolset: setup.Transfer, Destructive: true, Idempotent: true,
			Continues: true,
			Description: "Copy a file or directory from the user's machine (local_path) into a sandbox. Only " +
				"directories " +
				"that the user opened to this server can be read.",
		}, Push),
		Define(Tool{
			Name: "pull", Title: "Copy out of a sandbox", Toolset: setup.Transfer, Destructive: true, Idempotent: true,
			Continues: true,
			Description: "Copy a file or directory of a sandbox to the user's machine (local_path). Only " +
				"directories that " +
				"the user opened to this server can be written.",
		}, Pull),
	}
}

// Push copies from the host into a sandbox. It creates the missing directories of the target.
func Push(ctx context.Context, c *Call, in PushIn) (TransferOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return TransferOut{}, err
	}
	root, relative, err := c.hostPath(ctx, in.Local)
	if err != nil {
		return TransferOut{}, err
	}
	defer func() { _ = root.Close() }()
	if strings.HasSuffix(in.Local, "/") {
		relative += "/"
	}
	name := target(sb, in.Path)
	if dir := path.Dir(name); dir != "/" { // of "/dir/" that is "/dir"
		if err := c.Service.Files.Mkdir(ctx, sb.Ref(), dir, true); err != nil {
			return TransferOut{}, err
		}
	}
	result, err := transfer.Copy(ctx, c.Service.Files, transfer.Request{
		From: transfer.Endpoint{Path: relative}, To: transfer.Endpoint{Sandbox: sb.Ref(), Path: name},
		Exclude: in.Exclude, GitIgnore: true, Root: root, Progress: c.copying(ctx),
	})
	return TransferOut{Source: in.Local, Destination: sb.Name +
		":" + in.Path, Files: result.Files, Bytes: result.Bytes, Warnings: result.Warnings}, err
}

// target is Absolute, but keeps a trailing slash, which marks a directory.
func target(sb core.Sandbox, name string) string {
	if strings.HasSuffix(name, "/") && name != "/" {
		return Absolute(sb, name) + "/"
	}
	return Absolute(sb, name)
}

// copying reports every tenth of a copy to the client, with at least 16 MiB between two reports.
func (c *Call) copying(ctx context.Context) core.ProgressFunc {
	var reported int64
	return func(p core.Progress) {
		step := max(p.Total/10, 16<<20)
		if p.Done-reported >= step {
			reported = p.Done
			c.Progress(ctx, fmt.Sprintf("%s: %s of %s", p.Step, core.Bytes(p.Done), core.Bytes(p.Total)))
		}
	}
}

// Pull copies from a sandbox to the host.
func Pull(ctx context.Context, c *Call, in PullIn) (TransferOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return TransferOut{}, err
	}
	root, relative, err := c.hostPath(ctx, in.Local)
	if err != nil {
		return TransferOut{}, err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(relative); err == nil && info.IsDir() {
		name := path.Base(Absolute(sb, in.Path))
		if name == "/" { // the root has no name
			name = sb.Name
		}
		relative = filepath.Join(relative, name)
	}
	if _, err := root.Lstat(relative); err == nil && !in.Replace {
		return TransferOut{}, core.Errorf(
			core.KindConflict, "pull", "", "%s exists already", filepath.Join(root.Name(), relative),
		).
			WithHint("set replace: true, or choose another path")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return TransferOut{}, core.Errorf(core.KindUnauthorized, "pull", "", "%s: %w", in.Local, err)
	}
	if err := keepsGit(root, relative); err != nil {
		return TransferOut{}, err
	}
	if err := c.confirm(
		ctx, "host_write",
		fmt.Sprintf(
			"Write %s from sandbox %s to %s on this machine?", in.Path, sb.Name, filepath.Join(root.Name(), relative),
		),
	); err != nil {
		return TransferOut{}, err
	}
	result, err := c.pullInto(ctx, sb, in, root, relative)
	return TransferOut{
		Source: sb.Name + ":" + in.Path, Destination: filepath.Join(root.Name(), relative), Files: result.Files,
		Bytes: result.Bytes, Warnings: result.Warnings,
	}, err
}

// keepsGit refuses to replace a repository or a part of its .git: Git runs programs that its files name.
func keepsGit(root *os.Root, relative string) error {
	refused := false
	for dir := filepath.Join(root.Name(), relative); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		refused = refused || strings.EqualFold(filepath.Base(dir), ".git")
	}
	if info, err := root.Lstat(relative); err == nil && info.IsDir() && !refused {
		err := fs.WalkDir(root.FS(), filepath.ToSlash(relative), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && strings.EqualFold(d.Name(), ".git") {
				refused = true
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			return core.Errorf(core.KindUnauthorized, "pull", "", "%s cannot be searched: %w", relative, err)
		}
	}
	if refused {
		return core.Errorf(
			core.KindConflict, "pull", "", "%s is or contains a .git, which files of a sandbox do not replace",
			filepath.Join(root.Name(), relative),
		).
			WithHint("name another path")
	}
	return nil
}

// pullInto copies into a new directory beside the target, then renames the whole. No link of the host diverts the copy,
// and a failed copy keeps the old files.
func (c *Call) pullInto(
	ctx context.Context, sb core.Sandbox, in PullIn, root *os.Root, relative string,
) (result transfer.Result, err error) {
	fail := func(err error) (transfer.Result, error) {
		kind := core.KindOf(err)
		if kind == core.KindInternal { // the path leads out of the directory
			kind = core.KindUnauthorized
		}
		return result, core.Errorf(kind, "pull", "", "%s: %w", in.Local, err)
	}
	beside := filepath.Dir(relative)
	for beside != "." { // the new directory has to be on the target's file system
		if _, err := root.Stat(beside); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		beside = filepath.Dir(beside)
	}
	staging := filepath.Join(beside, ".sb-"+rand.Text())
	if err := root.Mkdir(staging, 0o700); err != nil {
		return fail(err)
	}
	defer func() { _ = root.RemoveAll(staging) }()
	whole, before := filepath.Join(staging, "whole"), filepath.Join(staging, "before")
	result, err = transfer.Copy(ctx, c.Service.Files, transfer.Request{
		From:     transfer.Endpoint{Sandbox: sb.Ref(), Path: strings.TrimSuffix(Absolute(sb, in.Path), "/")},
		To:       transfer.Endpoint{Path: filepath.Join(root.Name(), whole)},
		Progress: c.copying(ctx),
	})
	if err != nil {
		return result, err
	}
	if err := root.MkdirAll(filepath.Dir(relative), 0o755); err != nil {
		return fail(err)
	}
	replaced := false
	if info, err := root.Lstat(relative); in.Replace && err == nil && info.IsDir() { // a rename cannot replace a directory
		if err := root.Rename(relative, before); err != nil {
			return fail(err)
		}
		replaced = true
	}
	if err := root.Rename(whole, relative); err != nil {
		if replaced {
			err = errors.Join(err, root.Rename(before, relative))
		}
		return fail(err)
	}
	return result, nil
}
