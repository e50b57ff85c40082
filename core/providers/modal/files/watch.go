package files

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"

	"github.com/seed-0724f904/sb/core"
)

// toolWatch is the tool's command that writes changes, one on each line, until its input ends.
const toolWatch = "Watch"

// watchRequest is the argument of Watch. Filter lists the kinds to report. Without Timeout the tool runs until its
// input ends.
type watchRequest struct {
	Path      string   `json:"path"`
	Recursive bool     `json:"recursive"`
	Filter    []string `json:"filter"`
	Timeout   *int     `json:"timeout_secs"`
}

// watchEvent is one line of its output.
type watchEvent struct {
	Type  string   `json:"event_type"`
	Paths []string `json:"paths"`
}

// WatchFiles implements core.FileWatcher.
func (f *Files) WatchFiles(ctx context.Context, id, name string, recursive bool) iter.Seq2[core.FileEvent, error] {
	return func(yield func(core.FileEvent, error) bool) {
		if !speakable(name) {
			yield(core.FileEvent{}, core.Errorf(core.KindUnsupported, "modal.watch", name,
				"Modal watches only names that are UTF-8"))
			return
		}
		kinds := []string{"Create", "Modify", "Remove", "Rename", "RenameFrom", "RenameTo"}
		request := watchRequest{Path: name, Recursive: recursive, Filter: kinds}
		// The tool ends with its input, so ctx closes the input instead of canceling the program.
		life := context.WithoutCancel(ctx)
		o, err := f.programs.Operate(life, id, "watch", name, toolArgv(toolWatch, request))
		if err != nil {
			yield(core.FileEvent{}, err)
			return
		}
		defer context.AfterFunc(ctx, func() { _ = o.in.Close() })()
		defer func() { _, _ = o.Wait(life) }()
		lines := bufio.NewScanner(o.out)
		for lines.Scan() {
			var event watchEvent
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				yield(core.FileEvent{}, core.Errorf(core.KindInternal, "modal.watch", name,
					"the answer of Modal's file tool is damaged: %w", err))
				return
			}
			if fileEvent, ok := event.fileEvent(); ok && !yield(fileEvent, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(core.FileEvent{}, core.Wrap("modal.watch", name, ctx.Err()))
			return
		}
		if err := o.end(life, toolVerdict); err != nil {
			yield(core.FileEvent{}, err)
		}
	}
}

// fileEvent converts an event. ok is false for one without a path.
func (e watchEvent) fileEvent() (core.FileEvent, bool) {
	if len(e.Paths) == 0 {
		return core.FileEvent{}, false
	}
	event := core.FileEvent{Path: e.Paths[len(e.Paths)-1]}
	if len(e.Paths) > 1 {
		event.From = e.Paths[0]
	}
	switch e.Type {
	case "Create":
		event.Kind = core.FileCreated
	case "Remove":
		event.Kind = core.FileRemoved
	case "Rename", "RenameFrom", "RenameTo":
		event.Kind = core.FileRenamed
	default:
		event.Kind = core.FileModified
	}
	return event, true
}
