package files

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-0724f904/sb/core"
)

// Files implements core.FileSystem and core.FileWatcher for the sandboxes in which its programs run.
type Files struct{ programs Programs }

var (
	_ core.FileSystem  = (*Files)(nil)
	_ core.FileWatcher = (*Files)(nil)
)

// New returns the files of the sandboxes in which programs run.
func New(programs Programs) *Files { return &Files{programs} }

// cleanup is the time limit for removing the temporary file of a failed write.
const cleanup = 10 * time.Second

// Stat implements core.FileSystem.
func (f *Files) Stat(ctx context.Context, id, name string) (core.FileInfo, error) {
	if speakable(name) {
		info, err := f.toolStat(ctx, id, name)
		if err != nil || speakable(info.Link) && !strings.ContainsRune(info.Link, utf8.RuneError) {
			return info, err
		}
	}
	text, err := f.script(ctx, id, "stat", name, "stat")
	if err != nil {
		return core.FileInfo{}, err
	}
	infos, err := shellInfos("stat", name, text)
	if err == nil && len(infos) != 1 {
		err = core.Errorf(core.KindNotFound, "modal.stat", name, "it vanished")
	}
	if err != nil {
		return core.FileInfo{}, err
	}
	return infos[0], core.CheckFile(name, infos[0])
}

// ReadDir implements core.FileSystem.
func (f *Files) ReadDir(ctx context.Context, id, dir string) ([]core.FileInfo, error) {
	var infos []core.FileInfo
	whole := false
	if speakable(dir) {
		var err error
		if infos, whole, err = f.toolReadDir(ctx, id, dir); err != nil {
			return nil, err
		}
	}
	if !whole {
		text, err := f.script(ctx, id, "readdir", dir, "list")
		if err != nil {
			return nil, err
		}
		if infos, err = shellInfos("readdir", dir, text); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(infos, func(a, b core.FileInfo) int { return cmp.Compare(a.Path, b.Path) })
	return infos, core.CheckListing(dir, infos)
}

// Mkdir implements core.FileSystem.
func (f *Files) Mkdir(ctx context.Context, id, dir string, parents bool) error {
	if speakable(dir) {
		_, err := f.tool(ctx, id, "mkdir", dir, toolMkdir, toolPath{Parents: &parents})
		return err
	}
	_, err := f.script(ctx, id, "mkdir", dir, "mkdir", flag(parents))
	return err
}

// Remove implements core.FileSystem.
func (f *Files) Remove(ctx context.Context, id, name string, recursive bool) error {
	if speakable(name) && !recursive {
		_, err := f.tool(ctx, id, "remove", name, toolRemove, toolPath{Recursive: &recursive})
		return err
	}
	_, err := f.script(ctx, id, "remove", name, "remove", flag(recursive))
	if !errors.Is(err, errNoShell) || !speakable(name) {
		return err
	}
	// The tool does not check for mounts; these are in every sandbox.
	for _, mount := range []string{"/proc", "/sys", "/dev", path.Dir(path.Dir(fsTool))} {
		if name == mount || strings.HasPrefix(name, mount+"/") {
			return scriptVerdict("remove", name, core.Exit{Code: exitMounted}, nil)
		}
	}
	_, err = f.tool(ctx, id, "remove", name, toolRemove, toolPath{Recursive: &recursive})
	return err
}

// ReadFile implements core.FileSystem. The image's cat reads the files that are too large for the tool.
func (f *Files) ReadFile(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if speakable(name) {
		content, err := f.stream(ctx, id, "read", name, toolArgv(toolRead, toolPath{Path: name}), toolVerdict)
		if !errors.Is(err, core.KindExhausted) {
			return content, err
		}
	}
	return f.stream(ctx, id, "read", name, scriptArgv(shellFiles, "read", name), scriptVerdict)
}

// stream returns a program's answer as a stream. It waits for the first byte or the program's failure.
func (f *Files) stream(
	ctx context.Context, id, op, subject string, argv []string, verdict Verdict,
) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	o, err := f.programs.Operate(ctx, id, op, subject, argv)
	if err != nil {
		cancel()
		return nil, err
	}
	_ = o.in.Close()
	s := &answerStream{ctx: ctx, cancel: cancel, op: o, verdict: verdict, buffered: bufio.NewReaderSize(o.out, 64<<10)}
	if _, err := s.buffered.Peek(1); err != nil {
		if err := o.end(ctx, verdict); err != nil {
			cancel()
			return nil, err
		}
	}
	return s, nil
}

// answerStream ends with io.EOF only if the operation succeeded.
type answerStream struct {
	ctx      context.Context //nolint:containedctx // a stream lives as long as the call that opened it
	cancel   context.CancelFunc
	op       *Operation
	verdict  Verdict
	buffered *bufio.Reader
}

func (s *answerStream) Read(b []byte) (int, error) {
	n, err := s.buffered.Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	if err := s.op.end(s.ctx, s.verdict); err != nil {
		return 0, err
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	return 0, io.EOF
}

// Close discards the rest of the answer.
func (s *answerStream) Close() error {
	s.cancel()
	_ = s.op.process.Close()
	_, _ = s.op.Wait(s.ctx)
	return nil
}

// copyBlock is the size of one read from a body, in bytes.
const copyBlock = 256 << 10

// WriteFile implements core.FileSystem. The tool writes in place while content arrives, always creates parents and sets
// no mode. So the content goes to a temporary file, and a script moves the complete file into place.
func (f *Files) WriteFile(ctx context.Context, id, name string, content io.Reader, opts core.WriteOptions) error {
	key := uuid.NewString()
	temp := "/tmp/.sb-new-" + key
	if err := f.upload(ctx, id, name, temp, content); err != nil {
		return errors.Join(err, f.discard(ctx, id, temp))
	}
	how := ""
	if opts.Parents {
		how += "p"
	}
	if opts.Append {
		how += "a"
	}
	argv := scriptArgv(commitFile, "commit", name, temp, ".sb-put-"+key, octal(opts.Mode), how)
	_, err := f.programs.Answer(ctx, id, "write", name, argv, scriptVerdict)
	if err == nil {
		return nil
	}
	if errors.Is(err, errNoShell) {
		err = f.rewrite(ctx, id, temp, name, opts)
	}
	return errors.Join(err, f.discard(ctx, id, temp))
}

// upload writes content to a file with the tool.
func (f *Files) upload(ctx context.Context, id, subject, temp string, content io.Reader) error {
	o, err := f.programs.Operate(ctx, id, "write", subject, toolArgv(toolWrite, toolPath{Path: temp}))
	if err != nil {
		return err
	}
	sendErr := o.Send(ctx, func(to io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{content}, make([]byte, copyBlock))
		return err
	})
	err = o.end(ctx, toolVerdict)
	if sendErr != nil {
		return core.Wrap("modal.write", subject, sendErr)
	}
	return err
}

// discard removes the file of a failed write. When the sandbox cannot be reached, the file stays until the sandbox
// ends.
func (f *Files) discard(ctx context.Context, id, temp string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	_, err := f.tool(ctx, id, "remove", temp, toolRemove, toolPath{Recursive: new(true)})
	if errors.Is(err, core.KindNotFound) || errors.Is(err, core.KindConflict) {
		return nil
	}
	return err
}

// rewrite moves an uploaded file into place in an image without a shell: it reads the file back and writes it with the
// tool. That is not atomic and sets no mode.
func (f *Files) rewrite(ctx context.Context, id, temp, name string, opts core.WriteOptions) error {
	if opts.Append || opts.Mode != 0 && opts.Mode.Perm() != 0o644 || !speakable(name) {
		return core.Wrap("modal.write", name, errNoShell)
	}
	if !opts.Parents {
		if info, err := f.toolStat(ctx, id, path.Dir(name)); err != nil {
			return err
		} else if !info.Mode.IsDir() {
			return core.Errorf(core.KindConflict, "modal.write", name, "it is not in a directory")
		}
	}
	content, err := f.ReadFile(ctx, id, temp)
	if err != nil {
		return err
	}
	return errors.Join(f.upload(ctx, id, name, name, content), content.Close())
}
