package exec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
)

// codeView prints the events of a run.
type codeView struct {
	opts     *CodeOptions
	out      io.Writer
	errs     io.Writer
	terminal bool

	interrupted, timedOut bool
	// err is the first failure to print or save.
	err error
}

func newCodeView(opts *CodeOptions) *codeView {
	streams := opts.App.Streams
	return &codeView{opts: opts, out: streams.Out, errs: streams.Err, terminal: streams.ErrTTY()}
}

// event prints one event. It is the emit of code.Sessions.
func (v *codeView) event(e code.Event) {
	v.interrupted = v.interrupted || e.Type == code.EventError && e.Name == "KeyboardInterrupt"
	v.timedOut = v.timedOut || e.Type == code.EventTimeout
	if e.Type == code.EventResult && v.opts.Output != "" {
		v.keep(v.save(e))
	}
	if v.opts.JSON {
		v.keep(output.Line(v.out, e))
		return
	}
	switch e.Type {
	case code.EventStdout:
		_, err := io.WriteString(v.out, e.Text)
		v.keep(err)
	case code.EventStderr:
		_, err := io.WriteString(v.errs, e.Text)
		v.keep(err)
	case code.EventResult:
		v.result(e)
	case code.EventError:
		text := strings.Join(e.Traceback, "\n")
		if text == "" {
			text = e.Name + ": " + e.Value
		}
		_, err := fmt.Fprintln(v.errs, text)
		v.keep(err)
	case code.EventQueued:
		if v.terminal {
			_, _ = fmt.Fprintln(v.errs, "sb: another run of this session comes first")
		}
	case code.EventBegin, code.EventTimeout, code.EventEnd:
	}
}

func (v *codeView) keep(err error) { v.err = cmp.Or(v.err, err) }

// result prints a value. A picture has a line of text, too, which names its type.
func (v *codeView) result(e code.Event) {
	if text := e.Plain(); text != "" {
		_, err := fmt.Fprintln(v.out, text)
		v.keep(err)
	}
	if v.opts.Output == "" {
		for mime, content := range e.Media() {
			_, _ = fmt.Fprintf(v.errs, "sb: %s of %s; --output DIR saves it\n", output.Clean(mime), core.Bytes(len(content)))
		}
	}
	for mime, size := range e.Omitted {
		_, _ = fmt.Fprintf(v.errs, "sb: %s of %s was too large and is left out\n", output.Clean(mime), core.Bytes(size))
	}
}

// extensions are those of the representations that become files.
func extensions() map[string]string {
	return map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg", "image/gif": ".gif", "image/webp": ".webp",
		"application/pdf": ".pdf",
	}
}

// save writes the pictures and documents of a result to new files.
func (v *codeView) save(e code.Event) error {
	if err := os.MkdirAll(v.opts.Output, 0o755); err != nil {
		return core.Wrap("code", v.opts.Output, err)
	}
	media := e.Media()
	for _, mime := range slices.Sorted(maps.Keys(media)) {
		extension, known := extensions()[mime]
		if !known {
			continue
		}
		path, err := writeNew(v.opts.Output, extension, media[mime])
		if err != nil {
			return core.Wrap("code", v.opts.Output, err)
		}
		if !v.opts.JSON {
			_, _ = fmt.Fprintf(v.errs, "sb: saved %s\n", path)
		}
	}
	return nil
}

// writeNew writes content to the first free name result-N in a directory, and returns its path.
func writeNew(dir, extension string, content []byte) (string, error) {
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("result-%d%s", n, extension))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as files of this user are
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(content)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // an incomplete picture cannot be shown
			return "", err
		}
		return path, nil
	}
}
