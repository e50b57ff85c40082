package code

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Notebook is a Jupyter notebook of format 4, as https://nbformat.readthedocs.io describes it. Fields that are not used
// here stay as they are.
type Notebook struct {
	fields map[string]any
	cells  []map[string]any // the code cells
}

// ReadNotebook reads a notebook.
func ReadNotebook(name string, text []byte) (*Notebook, error) {
	broken := func(why string) error {
		return core.Errorf(core.KindUsage, "code", name, "it is not a Jupyter notebook of format 4: %s", why)
	}
	n := &Notebook{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&n.fields); err != nil {
		return nil, broken(err.Error())
	}
	if version, _ := n.fields["nbformat"].(json.Number); version != "4" {
		return nil, broken("nbformat is not 4")
	}
	cells, ok := n.fields["cells"].([]any)
	if !ok {
		return nil, broken("it has no cells")
	}
	for _, cell := range cells {
		fields, ok := cell.(map[string]any)
		if !ok {
			return nil, broken("a cell is no object")
		}
		if fields["cell_type"] == "code" {
			n.cells = append(n.cells, fields)
		}
	}
	return n, nil
}

// Language returns the language that the notebook's metadata name. KindUsage: it has no sessions.
func (n *Notebook) Language() (Language, error) {
	metadata, _ := n.fields["metadata"].(map[string]any)
	for section, field := range map[string]string{"language_info": "name", "kernelspec": "language"} {
		fields, _ := metadata[section].(map[string]any)
		if name, _ := fields[field].(string); name != "" {
			return ParseLanguage(name)
		}
	}
	return Python, nil
}

// Cells returns the number of code cells.
func (n *Notebook) Cells() int { return len(n.cells) }

// Text returns the notebook as Jupyter writes it.
func (n *Notebook) Text() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(n.fields)
	return text.Bytes(), err
}

// RunCell runs one code cell, counted from 0, and replaces its outputs. run has the session. watch, if not nil,
// receives the events. ok reports that the cell raised no error. Cells without code are not run.
func (n *Notebook) RunCell(
	ctx context.Context, sessions Sessions, ref string, run Run, index int, watch func(Event),
) (ok bool, err error) {
	cell := n.cells[index]
	run.Code = joined(cell["source"])
	cell["outputs"], cell["execution_count"] = []any{}, nil
	if strings.TrimSpace(run.Code) == "" {
		return true, nil
	}
	var made outputs
	call, err := sessions.Start(ctx, ref, run, func(e Event) {
		made.add(e)
		if watch != nil {
			watch(e)
		}
	})
	if err != nil {
		return false, err
	}
	end, err := call.Wait(ctx)
	if ctx.Err() != nil {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
		defer cancel()
		if call.Interrupt(after) == nil {
			end, _ = call.Wait(after)
		}
	}
	if closeErr := call.Close(); err == nil {
		err = closeErr
	}
	cell["outputs"] = made.all()
	if err == nil {
		cell["execution_count"] = end.Count
	}
	return end.OK, err
}

// interruptTimeout bounds the wait for the end of an interrupted cell.
const interruptTimeout = 5 * time.Second

// joined returns a text that a notebook has as a string or as a list of lines.
func joined(source any) string {
	switch source := source.(type) {
	case string:
		return source
	case []any:
		var text strings.Builder
		for _, line := range source {
			if line, ok := line.(string); ok {
				text.WriteString(line)
			}
		}
		return text.String()
	}
	return ""
}

// split is the reverse of joined, in the form in which Jupyter writes texts.
func split(text string) []any {
	lines := []any{}
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// outputs collects the outputs of a cell.
type outputs struct {
	mu   sync.Mutex
	done []any
	// stream is the output that grows, and text its content.
	stream string
	text   strings.Builder
	// size counts the bytes of all outputs.
	size int
}

// maxOutputs bounds the outputs of one cell, in bytes. The rest is dropped.
const maxOutputs = 64 << 20

// full counts an output, and reports whether there are too many. The first one of these becomes a note.
func (o *outputs) full(size int) bool {
	before := o.size
	o.size += size
	if before <= maxOutputs && o.size > maxOutputs {
		o.flush()
		o.stream = string(EventStderr)
		o.text.WriteString("[the rest of the output was dropped]\n")
		o.flush()
	}
	return o.size > maxOutputs
}

// sizeOf is about the size of an event in memory, in bytes.
func sizeOf(e Event) int {
	size := 100 + len(e.Text)
	for mime, value := range e.Data {
		size += len(mime) + len(value)
	}
	for _, line := range e.Traceback {
		size += len(line)
	}
	return size
}

func (o *outputs) add(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full(sizeOf(e)) {
		return
	}
	switch e.Type {
	case EventStdout, EventStderr:
		if string(e.Type) != o.stream {
			o.flush()
			o.stream = string(e.Type)
		}
		o.text.WriteString(e.Text)
	case EventResult:
		o.flush()
		output := map[string]any{"output_type": "display_data", "data": dataOf(e), "metadata": map[string]any{}}
		if e.Count > 0 {
			output["output_type"], output["execution_count"] = "execute_result", e.Count
		}
		o.done = append(o.done, output)
	case EventError:
		o.flush()
		trace := []any{}
		for _, line := range e.Traceback {
			trace = append(trace, line)
		}
		o.done = append(o.done, map[string]any{
			"output_type": "error", "ename": e.Name, "evalue": e.Value, "traceback": trace,
		})
	case EventQueued, EventBegin, EventTimeout, EventEnd:
	}
}

func (o *outputs) flush() {
	if o.stream != "" {
		o.done = append(o.done, map[string]any{"output_type": "stream", "name": o.stream, "text": split(o.text.String())})
	}
	o.stream = ""
	o.text.Reset()
}

func (o *outputs) all() []any {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	if o.done == nil {
		return []any{}
	}
	return o.done
}

// dataOf returns the representations of a result as a notebook has them: JSON, base64 as one string, and other texts
// as lines.
func dataOf(e Event) map[string]any {
	data := map[string]any{}
	for mime, value := range e.Data {
		text := ""
		isText := json.Unmarshal(value, &text) == nil
		binary := strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" || mime == "application/pdf"
		switch {
		case !isText:
			data[mime] = value
		case binary:
			data[mime] = text
		default:
			data[mime] = split(text)
		}
	}
	return data
}
