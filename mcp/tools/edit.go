package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/aymanbagabas/go-udiff"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// EditIn is the input of file_edit.
type EditIn struct {
	Sandbox string     `json:"sandbox"`
	Path    string     `json:"path"`
	Edits   []textEdit `json:"edits" jsonschema:"in order; all or none are applied"`
}

// textEdit replaces a text.
type textEdit struct {
	Old string `json:"old" jsonschema:"text that is in the file exactly once"`
	New string `json:"new"`
	All bool   `json:"all,omitempty" jsonschema:"replaces every occurrence"`
}

// EditOut is the result of file_edit.
type EditOut struct {
	Path string `json:"path"`
	Diff string `json:"diff" jsonschema:"unified diff; may be cut"`
}

// Text implements texter.
func (o EditOut) Text() string {
	if o.Diff == "" {
		return o.Path + " is unchanged: old and new are the same"
	}
	return o.Diff
}

// maxEdited is the size of the largest file that file_edit changes, in bytes.
const maxEdited = 4 << 20

// EditFile replaces texts in a file. It writes nothing unless every edit applies, and replaces the file atomically.
// Calls for the same file take turns. It does not notice a change by the sandbox's own programs in the meantime.
func EditFile(ctx context.Context, c *Call, in EditIn) (EditOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return EditOut{}, err
	}
	name := Absolute(sb, in.Path)
	done, err := c.Editing(ctx, sb, name)
	if err != nil {
		return EditOut{}, err
	}
	defer done()
	before, err := c.readToEdit(ctx, sb, name)
	if err != nil {
		return EditOut{}, err
	}
	if len(in.Edits) == 0 {
		return EditOut{}, core.Errorf(core.KindUsage, "edit", "", "edits is empty")
	}
	after := before
	for i, edit := range in.Edits {
		if after, err = edit.apply(after, name); err != nil {
			return EditOut{}, fmt.Errorf("edit %d of %d: %w", i+1, len(in.Edits), err)
		}
	}
	out := EditOut{Path: name}
	if after == before {
		return out, nil
	}
	err = c.Service.Files.WriteFile(ctx, sb.Ref(), name, strings.NewReader(after), core.WriteOptions{})
	if err != nil {
		return EditOut{}, err
	}
	c.Host.Changed(sb, name)
	diff := c.Host.Secrets.Of(sb.ID).Clean(udiff.Unified(name, name, before, after))
	out.Diff = strings.ToValidUTF8(string(reply.FirstRunes([]byte(diff), c.Budget(0))), "\uFFFD")
	if len(out.Diff) < len(diff) {
		out.Diff += "\n[... the rest is left out; file_read returns the file ...]"
	}
	return out, nil
}

// Editing waits until no other call edits or replaces a file; name is absolute. The caller calls done.
func (c *Call) Editing(ctx context.Context, sb core.Sandbox, name string) (done func(), err error) {
	return c.Host.editing.turn(ctx, FileURI(sb.ID, name))
}

// readToEdit returns the whole content of a file.
func (c *Call) readToEdit(ctx context.Context, sb core.Sandbox, name string) (string, error) {
	content, err := c.Service.Files.ReadFile(ctx, sb.Ref(), name)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(content, maxEdited+1)); err != nil {
		return "", err
	}
	if text.Len() > maxEdited {
		return "", core.Errorf(core.KindUsage, "edit", "", "%s is larger than %s", name, core.Bytes(maxEdited)).
			WithHint("change it by a program, with exec")
	}
	return text.String(), nil
}

// apply returns the text after the edit.
func (e textEdit) apply(text, name string) (string, error) {
	if e.Old == "" {
		return "", core.Errorf(core.KindUsage, "edit", "", "old is empty").WithHint("file_write writes a whole file")
	}
	switch count := strings.Count(text, e.Old); {
	case count == 0:
		return "", core.Errorf(core.KindUsage, "edit", "", "old is not in %s", name).
			WithHint("file_read returns the text; blanks and line ends count")
	case count > 1 && !e.All:
		return "", core.Errorf(core.KindUsage, "edit", "", "old is in %s %d times", name, count).
			WithHint("add lines around it, or replace each with all: true")
	}
	if len(text)+strings.Count(text, e.Old)*(len(e.New)-len(e.Old)) > maxEdited {
		return "", core.Errorf(core.KindUsage, "edit", "", "%s becomes larger than %s", name, core.Bytes(maxEdited))
	}
	return strings.ReplaceAll(text, e.Old, e.New), nil
}

// editing lets calls edit a file one after the other. It is safe for concurrent use.
type editing struct {
	mu sync.Mutex
	// busy has the files that a call edits. A channel is closed at the end of the call.
	busy map[string]chan struct{}
}

// turn waits until no other call edits the file. done ends the turn.
func (e *editing) turn(ctx context.Context, file string) (done func(), err error) {
	for {
		e.mu.Lock()
		other, busy := e.busy[file]
		if !busy {
			own := make(chan struct{})
			if e.busy == nil {
				e.busy = map[string]chan struct{}{}
			}
			e.busy[file] = own
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.busy, file)
				close(own)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
