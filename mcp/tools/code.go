package tools

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// CodeIn is the input of run_code.
type CodeIn struct {
	Sandbox  string            `json:"sandbox,omitempty" jsonschema:"default: a new sandbox for this run only"`
	Language string            `json:"language" enum:"python|javascript|bash"`
	Code     string            `json:"code" jsonschema:"print the values that you want to see"`
	Session  string            `json:"session,omitempty" jsonschema:"name; keeps variables for the next run, shows the last value and plots"`
	Restart  bool              `json:"restart,omitempty" jsonschema:"starts the session over"`
	Stdin    string            `json:"stdin,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Timeout  int               `json:"timeout_seconds,omitempty" jsonschema:"kills the run after this time"`
	Budget   int               `json:"max_output,omitempty" jsonschema:"characters"`
}

func codeTool() Tool {
	return Define(Tool{
		Name: "run_code", Title: "Run code", Toolset: setup.Exec, Destructive: true, OpenWorld: true,
		Description: "Run Python, JavaScript (Node.js) or bash code and return its output. Without a session, each " +
			"run " +
			"is a new process.",
	}, RunCode)
}

// MaxCode bounds the code in one argument of a command, in bytes.
const MaxCode = 96 << 10

// RunCode runs a program in a sandbox, or in a temporary one.
func RunCode(ctx context.Context, c *Call, in CodeIn) (ExecResult, error) {
	if in.Session != "" || in.Restart {
		return c.runInSession(ctx, in)
	}
	if len(in.Code) > MaxCode {
		return ExecResult{}, core.Errorf(core.KindUsage, "run_code", "", "the code is longer than %d bytes", MaxCode).
			WithHint("write it to a file with file_write, and run that with exec")
	}
	var argv []string
	switch in.Language {
	case "python":
		argv = []string{"python3", "-u", "-c", in.Code}
	case "javascript":
		argv = []string{"node", "-e", in.Code}
	case "bash":
		argv = []string{"bash", "-c", in.Code}
	}
	return c.Code(ctx, in.Sandbox, Execution{
		Spec:  core.ExecSpec{Command: argv, Env: in.Env, Timeout: seconds(in.Timeout)},
		input: in.Stdin, Wait: c.Host.Options.SoftDeadline, Budget: c.Budget(in.Budget),
	}, core.Spec{Image: c.Host.Options.Images[in.Language]})
}

// Code runs a program in a sandbox. Without one, it launches a sandbox that ends with the program.
func (c *Call) Code(ctx context.Context, ref string, x Execution, spec core.Spec) (ExecResult, error) {
	if ref != "" {
		sb, err := c.Use(ctx, ref)
		if err != nil {
			return ExecResult{}, err
		}
		return c.Execute(ctx, sb, x)
	}
	sb, err := c.Launch(ctx, spec, false)
	if err != nil {
		return ExecResult{}, err
	}
	x.once = true
	id, e, err := c.begin(ctx, sb, x)
	var result ExecResult
	if err == nil {
		result, err = c.await(ctx, sb, id, e, x)
	}
	if err == nil && result.Running {
		c.endAfter(ctx, sb, e)
		result.Note += " It runs in a sandbox of its own, which ends after it."
		return result, nil
	}
	c.endSingle(ctx, sb) // for a canceled request, too
	return result, err
}

// CodeSandboxName is the name of the caller's sandbox of sessions that name none. The user's shell has another one.
func (c *Call) CodeSandboxName() string { return c.namePrefix() + "code" }

// CodeSandbox returns a sandbox for sessions. Without a reference it is one that all runs without a sandbox share, and
// that is launched at first use.
func (c *Call) CodeSandbox(ctx context.Context, ref string, language code.Language) (core.Sandbox, error) {
	sb, err := c.Use(ctx, cmp.Or(ref, c.CodeSandboxName()))
	if ref == "" && (errors.Is(err, core.KindNotFound) || err == nil && !sb.State.Live()) {
		return c.Launch(ctx, core.Spec{Name: c.CodeSandboxName(), Image: c.Host.Options.Images[string(language)]}, false)
	}
	return sb, err
}

// runInSession runs code in a session.
func (c *Call) runInSession(ctx context.Context, in CodeIn) (ExecResult, error) {
	language, err := code.ParseLanguage(in.Language)
	if err != nil {
		return ExecResult{}, err
	}
	if in.Stdin != "" {
		return ExecResult{}, core.Errorf(core.KindUsage, "run_code", "", "code in a session has no stdin").
			WithHint("write the input to a file with file_write")
	}
	sb, err := c.CodeSandbox(ctx, in.Sandbox, language)
	if err != nil {
		return ExecResult{}, err
	}
	result, err := c.Execute(ctx, sb, Execution{
		code: &code.Run{
			Language: language, Session: in.Session, Code: in.Code, New: in.Restart, Env: in.Env,
			Timeout: max(seconds(in.Timeout), 0),
		},
		Wait: c.Host.Options.SoftDeadline, Budget: c.Budget(in.Budget),
	})
	if e, ok := errors.AsType[*core.Error](err); ok && code.Gone(err) {
		err = e.WithHint("call run_code with restart: true to start another session")
	}
	return result, err
}

// startCode starts code in a session. The command of e is its connection to the session.
func (c *Call) startCode(ctx context.Context, sb core.Sandbox, run code.Run, e *runningExec) error {
	e.shown = &shownCode{stdout: e.stdout, stderr: e.stderr, pictures: &c.Host.pictures}
	call, err := code.Sessions{Execs: c.Service.Execs}.Start(ctx, sb.Ref(), run, e.shown.add)
	if err != nil {
		return err
	}
	e.process, e.code = call.Process, call
	return nil
}

// endOfCode returns the end of a run as that of a command.
func (e *runningExec) endOfCode(exit core.Exit, err error) (core.Exit, error) {
	end, err := e.code.Result(exit, err)
	_ = e.code.Close()
	exit = core.Exit{Duration: exit.Duration, TimedOut: e.shown.timedOut}
	if !end.OK {
		exit.Code = 1
	}
	return exit, err
}

const (
	// maxPictures bounds the pictures of one run in a reply, and maxNotes the remarks.
	maxPictures = 4
	maxNotes    = 8
	// maxNamed bounds the names of new files in a reply.
	maxNamed = 20
)

// shownCode renders the events of a run for a model. One goroutine adds events; the others read it after the end.
type shownCode struct {
	stdout, stderr io.Writer
	pictures       *reply.Pictures

	images   []mcp.ImageContent
	notes    []string
	timedOut bool
}

func (s *shownCode) add(e code.Event) {
	switch e.Type {
	case code.EventStdout:
		_, _ = io.WriteString(s.stdout, e.Text)
	case code.EventStderr:
		_, _ = io.WriteString(s.stderr, e.Text)
	case code.EventResult:
		if text := e.Plain(); text != "" {
			_, _ = io.WriteString(s.stdout, text+"\n")
		}
		s.addMedia(e)
	case code.EventError:
		text := strings.Join(e.Traceback, "\n")
		_, _ = io.WriteString(s.stderr, cmp.Or(text, e.Name+": "+e.Value)+"\n")
	case code.EventTimeout:
		s.timedOut = true
	case code.EventEnd:
		s.addFiles(e.Files)
	case code.EventQueued, code.EventBegin:
	}
}

func (s *shownCode) addMedia(e code.Event) {
	for _, data := range e.Media() {
		small, mimeType, ok := s.pictures.Scaled(data)
		if !ok {
			continue
		}
		if len(s.images) == maxPictures {
			s.remark("more pictures were left out")
			return
		}
		s.images = append(s.images, mcp.NewImageContent(base64.StdEncoding.EncodeToString(small), mimeType))
	}
	for mime := range e.Omitted {
		s.remark(fmt.Sprintf("a result of type %q was too large", mime))
	}
}

// remark adds a note, unless there are enough or it is the same as the last one.
func (s *shownCode) remark(text string) {
	if n := len(s.notes); n < maxNotes && (n == 0 || s.notes[n-1] != text) {
		s.notes = append(s.notes, text)
	}
}

func (s *shownCode) addFiles(files []code.File) {
	var names []string
	for _, file := range files[:min(len(files), maxNamed)] {
		names = append(names, fmt.Sprintf("%q (%d bytes)", file.Name, file.Size))
	}
	if len(names) > 0 {
		s.remark("new or changed files: " + strings.Join(names, ", "))
	}
}

// note returns the notes as one text.
func (s *shownCode) note() string {
	const most = 4 << 10
	text := strings.Join(s.notes, "; ")
	return text[:min(len(text), most)]
}
