package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/seed-0724f904/sb/core"
)

// Program is the function of an executable file in a sandbox. It returns the exit code, soon after ctx ends.
type Program func(ctx context.Context, call *Call) int

// Call is one run of a Program.
type Call struct {
	// Args begins with the name of the call.
	Args []string
	// Dir is the working directory in the sandbox.
	Dir            string
	Stdin          io.Reader // never nil; a read ends with the call's context
	Stdout, Stderr io.Writer

	env  expand.Environ
	proc *process
}

// Getenv returns a variable of the environment, or "".
func (c *Call) Getenv(name string) string { return c.env.Get(name).String() }

// path makes a path absolute.
func (c *Call) path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.Dir, name)
}

// fail writes an error in the format of common programs and returns code.
func (c *Call) fail(code int, subject string, err error) int {
	cause := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		cause = e.Err
	}
	text := cause.Error()
	if number, ok := errors.AsType[syscall.Errno](cause); ok {
		text = strings.ToUpper(number.Error()[:1]) + number.Error()[1:]
	}
	if subject != "" {
		text = subject + ": " + text
	}
	_, _ = fmt.Fprintf(c.Stderr, "%s: %s\n", path.Base(c.Args[0]), text)
	return code
}

// lookUp returns the content of the program that a command names, or the exit code of the failure.
func (b *box) lookUp(name, search, dir string) (content []byte, code int) {
	var places []string
	switch {
	case path.IsAbs(name):
		places = []string{path.Clean(name)}
	case strings.Contains(name, "/"):
		places = []string{path.Join(dir, name)}
	default:
		for place := range strings.SplitSeq(search, ":") {
			places = append(places, path.Join(place, name))
		}
	}
	code = codeNotFound
	for _, place := range places {
		n, err := b.tree.stat(place, true)
		if err != nil {
			continue
		}
		if !isExecutable(n.mode) {
			code = codeNotExecutable
			continue
		}
		return n.data, 0
	}
	return nil, code
}

// runMain runs the command itself. It returns an error if the command was killed.
func (proc *process) runMain() (int, error) {
	call := &Call{
		Args: proc.spec.Command, Dir: proc.dir, Stdout: output{proc, core.Stdout}, Stderr: output{proc, core.Stderr},
		env: expand.ListEnviron(proc.env...), proc: proc,
	}
	if n, err := proc.box.tree.stat(proc.dir, true); err != nil || n.children == nil {
		return call.fail(1, proc.dir, syscall.ENOENT), nil
	}
	if proc.stdin != nil {
		call.Stdin = proc.stdin
	}
	code := proc.runProgram(proc.ctx, call)
	return code, proc.ctx.Err()
}

// runProgram runs the program that call.Args names.
func (proc *process) runProgram(ctx context.Context, call *Call) int {
	content, code := proc.box.lookUp(call.Args[0], call.Getenv("PATH"), call.Dir)
	switch code {
	case codeNotFound:
		_, _ = fmt.Fprintf(call.Stderr, "%s: not found\n", call.Args[0])
		return code
	case codeNotExecutable:
		return call.fail(code, "", syscall.EACCES)
	}
	name, marked := strings.CutPrefix(string(content), programMark)
	if !marked {
		return call.shell(ctx, content, call.Args[0], call.Args[1:])
	}
	program, ok := proc.box.provider.programs[strings.TrimSpace(name)]
	if !ok {
		return call.fail(codeNotExecutable, "", syscall.ENOEXEC)
	}
	call.Stdin = patient(ctx, call.Stdin)
	return program(ctx, call)
}

// shell runs a script.
func (c *Call) shell(ctx context.Context, script []byte, name string, params []string) int {
	parser := syntax.NewParser()
	file, err := parser.Parse(bytes.NewReader(script), name)
	if err != nil {
		return c.fail(2, "", err)
	}
	runner, err := c.runner(params)
	if err != nil {
		return c.fail(2, "", err)
	}
	return status(runner.Run(ctx, file))
}

// builtin runs one of the shell's builtin commands as a program.
func builtin(ctx context.Context, c *Call) int {
	runner, err := c.runner(nil)
	if err != nil {
		return c.fail(2, "", err)
	}
	call := &syntax.CallExpr{Args: []*syntax.Word{word(path.Base(c.Args[0]))}}
	for _, arg := range c.Args[1:] {
		call.Args = append(call.Args, word(arg))
	}
	return status(runner.Run(ctx, call))
}

// word returns an argument that the shell does not expand.
func word(text string) *syntax.Word {
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: text}}}
}

// status returns the exit code for the interpreter's error. For a killed shell the code is unused.
func status(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(code)
	}
	return 1
}

// runner makes a shell over the sandbox's files and programs.
func (c *Call) runner(params []string) (*interp.Runner, error) {
	var stdin io.Reader
	if p, ok := c.Stdin.(*patientReader); ok {
		stdin = p.file
	} else if f, ok := c.Stdin.(*os.File); ok {
		stdin = f
	}
	sh := &shell{proc: c.proc}
	return interp.New(
		interp.Env(c.env),
		// Not interp.Dir, which checks the directory on this machine.
		func(r *interp.Runner) error { r.Dir = c.Dir; return nil },
		interp.Params(append([]string{"--"}, params...)...),
		interp.StdIO(stdin, c.Stdout, c.Stderr),
		interp.CallHandler(sh.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
		interp.OpenHandler(sh.open),
		interp.ReadDirHandler2(sh.readDir),
		interp.StatHandler(sh.stat),
		interp.AccessHandler(sh.access),
	)
}

// shell connects the interpreter to a sandbox.
type shell struct{ proc *process }

// call runs before every simple command. It handles signals, a pause and the memory limit.
func (sh *shell) call(ctx context.Context, args []string) ([]string, error) {
	if err := sh.proc.box.awake(ctx); err != nil {
		return nil, err
	}
	if sh.proc.box.exhausted(memory(interp.HandlerCtx(ctx).Env)) {
		return nil, context.Canceled
	}
	if handler := sh.proc.caught(); handler != "" {
		return []string{"eval", handler + "\n" + quoted(args)}, nil
	}
	switch {
	case args[0] == "kill":
		return append([]string{"/usr/bin/kill"}, args[1:]...), nil
	case args[0] == "trap" && len(args) > 2:
		return sh.trap(args), nil
	}
	return args, nil
}

// memory returns the size of a shell's variables.
func memory(env expand.Environ) core.Bytes {
	total := 0
	env.Each(func(name string, value expand.Variable) bool {
		total += len(name) + len(value.Str)
		return true
	})
	return core.Bytes(total)
}

func quoted(args []string) string {
	var text []string
	for _, arg := range args {
		q, err := syntax.Quote(arg, syntax.LangBash)
		if err != nil {
			continue // a NUL cannot be in an argument
		}
		text = append(text, q)
	}
	return strings.Join(text, " ")
}

// trap handles the signals of a trap command and leaves the names that the interpreter handles itself.
func (sh *shell) trap(args []string) []string {
	rest := args[:2:2]
	for _, name := range args[2:] {
		if number := signalNumber(name); number > 0 {
			sh.proc.trap(number, args[1])
			continue
		}
		rest = append(rest, name)
	}
	if len(rest) == 2 {
		return []string{":"}
	}
	return rest
}

// signalNumber parses "TERM", "SIGTERM" or "15"; 0 means unknown.
func signalNumber(name string) int {
	switch strings.TrimPrefix(name, "SIG") {
	case "HUP":
		return int(syscall.SIGHUP)
	case "INT":
		return sigInt
	case "QUIT":
		return int(syscall.SIGQUIT)
	case "KILL":
		return sigKill
	case "USR1":
		return int(syscall.SIGUSR1)
	case "USR2":
		return int(syscall.SIGUSR2)
	case "PIPE":
		return sigPipe
	case "ALRM":
		return int(syscall.SIGALRM)
	case "TERM":
		return sigTerm
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > 64 {
		return 0
	}
	return n
}

func (sh *shell) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	var exported []string
	hc.Env.Each(func(name string, value expand.Variable) bool {
		if value.Exported && value.IsSet() {
			exported = append(exported, name+"="+value.String())
		}
		return true
	})
	child, done := sh.proc.child(ctx)
	defer done()
	code := sh.proc.runProgram(
		child,
		&Call{
			Args: args, Dir: hc.Dir, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr, env: expand.ListEnviron(exported...),
			proc: sh.proc,
		},
	)
	if err := ctx.Err(); err != nil {
		return err
	}
	if k, ok := errors.AsType[killed](context.Cause(child)); ok {
		code = codeSignal + k.signal
	}
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(uint8(code)) //nolint:gosec // exit codes are bytes
}

func (sh *shell) stat(_ context.Context, name string, follow bool) (fs.FileInfo, error) {
	n, err := sh.proc.box.tree.stat(name, follow)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), n}, nil
}

func (sh *shell) access(_ context.Context, name string, _ interp.AccessMode) error {
	_, err := sh.proc.box.tree.stat(name, true)
	return err
}

func (sh *shell) readDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	names, err := sh.proc.box.tree.list(name)
	if err != nil {
		return nil, err
	}
	entries := make([]fs.DirEntry, 0, len(names))
	for _, base := range names {
		n, err := sh.proc.box.tree.stat(path.Join(name, base), false)
		if err != nil {
			continue // it was removed in between
		}
		entries = append(entries, fs.FileInfoToDirEntry(info{base, n}))
	}
	return entries, nil
}

func (sh *shell) open(ctx context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
	if !path.IsAbs(name) {
		name = path.Join(interp.HandlerCtx(ctx).Dir, name)
	}
	return sh.proc.open(name, flag)
}

// open opens a file or a device.
func (proc *process) open(name string, flag int) (*file, error) {
	f := &file{proc: proc, name: name, device: path.Dir(name) == "/dev"}
	switch {
	case name == "/dev/null" || name == "/dev/zero":
		return f, nil
	case flag&(os.O_WRONLY|os.O_RDWR) == 0:
		data, err := proc.box.tree.read(name)
		f.content = bytes.NewReader(data)
		return f, err
	case flag&os.O_TRUNC != 0:
		return f, proc.box.tree.replace(name, nil, 0, proc.uid)
	}
	_, err := proc.box.tree.appendTo(name, nil, 0, proc.uid)
	return f, err
}

// file is an open file. Writes go to its end; reads return its content at the time of the opening.
type file struct {
	content *bytes.Reader // nil if it is not open for reading
	proc    *process
	name    string
	device  bool
}

func (f *file) Read(p []byte) (int, error) {
	switch {
	case f.device && path.Base(f.name) == "zero":
		clear(p)
		return len(p), nil
	case f.content == nil:
		return 0, io.EOF
	}
	return f.content.Read(p)
}

func (f *file) Write(p []byte) (int, error) {
	if f.device {
		return len(p), nil
	}
	return f.proc.box.tree.appendTo(f.name, p, 0, f.proc.uid)
}

func (f *file) Close() error { return nil }
