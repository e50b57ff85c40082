package build

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
	"github.com/seed-0724f904/sb/internal/sparse"
)

// ScriptsDir is the directory of here-documents that are programs. It is in memory.
const ScriptsDir = "/dev/pipes"

// upperBuffer is the size of the buffer in which holes of files are found, in bytes.
const upperBuffer = 1 << 20

// runCommand runs RUN.
func (s *state) runCommand(ctx context.Context, c *instructions.RunCommand) error {
	argv, scripts, err := s.command(c)
	if err != nil {
		return err
	}
	run := Run{
		Argv: argv, Env: s.variables(), User: s.config.User, Workdir: s.config.WorkingDir, Scripts: scripts,
		Offline: instructions.GetNetwork(c) == instructions.NetworkNone,
	}
	mounts, err := s.mounts(ctx, c, &run)
	if err != nil {
		return err
	}
	keyed := map[string]any{
		"run": argv, "env": run.Env, "user": run.User, "workdir": run.Workdir, "scripts": scripts, "offline": run.Offline,
	}
	for _, name := range proxyArgs() {
		if value, given := s.job.Args[name]; given {
			if _, found := lookup(run.Env, name); !found {
				run.Env = append(run.Env, name+"="+value)
			}
		}
	}
	return s.layer(ctx, layerStep{
		line: line(c.Location()), title: s.job.titleOf(c),
		content: func() (_ string, err error) {
			if keyed["mounts"], err = s.describe(ctx, mounts); err != nil {
				return "", err
			}
			return keyOf(s.key, keyed)
		},
		make: func(ctx context.Context, to io.Writer) error { return s.execute(ctx, run, mounts, to) },
	})
}

// command returns the argv of RUN. A here-document is the script of the shell, or a program if it begins with "#!".
func (s *state) command(c *instructions.RunCommand) (argv []string, scripts map[string]string, err error) {
	if len(c.Files) == 0 {
		return s.argv(c.ShellDependantCmdLine), nil, nil
	}
	if len(c.CmdLine) != 1 || !c.PrependShell {
		return nil, nil, errors.New("a here-document needs the shell form")
	}
	text := c.CmdLine[0]
	heredoc, err := parser.ParseHeredoc(text)
	switch {
	case err != nil:
		return nil, nil, err
	case heredoc == nil:
		// The shell reads the documents.
		for _, file := range c.Files {
			text += "\n" + file.Data + file.Name
		}
		return append(s.shell(), text), nil, nil
	}
	file := c.Files[0]
	if file.Chomp {
		file.Data = parser.ChompHeredocContent(file.Data)
	}
	if !strings.HasPrefix(file.Data, "#!") {
		return append(s.shell(), file.Data), nil, nil
	}
	if file.Name != path.Base(file.Name) || file.Name == "." || file.Name == ".." {
		return nil, nil, fmt.Errorf("%q is no name for a here-document", file.Name)
	}
	return []string{path.Join(ScriptsDir, file.Name)}, map[string]string{file.Name: file.Data}, nil
}

// execute runs a command in a sandbox and writes its layer.
func (s *state) execute(ctx context.Context, run Run, mounts []*mount, to io.Writer) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.tree.Prepare(run.Workdir); err != nil {
		return err
	}
	leave, err := s.enter(ctx, &run, mounts)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.tree.Finish([16]byte{}); err != nil {
		return err
	}
	out := NewOutput(s.job.report)
	run.Root, run.Output = s.file.Name(), out
	upper, err := os.CreateTemp(s.job.cache.work, "upper-")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(upper.Close(), os.Remove(upper.Name())) }()
	holes := sparse.NewWriter(upper)
	buffer := bufio.NewWriterSize(holes, upperBuffer)
	run.Layer = buffer
	exit, err := s.job.Runner.Run(ctx, run)
	tail := out.End()
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil {
		err = holes.Finish()
	}
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return failed(exit, tail)
	}
	leave() // the layer is above the image's own files
	skip, err := s.stubs(mounts, upper)
	if err != nil {
		return err
	}
	if _, err := upper.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return layer.FromOverlay(to, upper, skip)
}

// failed returns the error for a command that failed.
func failed(exit core.Exit, tail string) error {
	why := fmt.Sprintf("exit code %d", exit.Code)
	if exit.Message != "" {
		why += ": " + exit.Message
	}
	if tail != "" {
		why += "\n" + tail
	}
	return core.Errorf(core.KindUsage, "local.build", "", "%s", why).
		WithHint("read the output of the step, then fix the Dockerfile or the package's name")
}

// writeDir writes a layer with a directory and those above it.
func (s *state) writeDir(ctx context.Context, dir string, to io.Writer) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	w := &copyWriter{tar: tar.NewWriter(to), root: s.tree.Root(), mode: -1, written: map[string]bool{}}
	if there, err := erofs.Find(w.root, dir, true); err == nil && !there.IsDir() {
		return fmt.Errorf("%s is no directory in the image", dir)
	}
	if s.config.User != "" {
		owner, err := s.ownerOf(s.config.User)
		if err != nil {
			return err
		}
		w.owner = owner
	}
	if err := w.parents(dir); err != nil {
		return err
	}
	return w.tar.Close()
}
