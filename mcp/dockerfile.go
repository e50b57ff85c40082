package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// writtenFiles remembers which files this server wrote into sandboxes, in their order among the commands.
type writtenFiles struct {
	mu    sync.Mutex
	bySbx map[string][]writtenFile
}

type writtenFile struct {
	path string
	at   time.Time
}

func (w *writtenFiles) add(sandbox, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bySbx == nil {
		w.bySbx = map[string][]writtenFile{}
	}
	files := slices.DeleteFunc(w.bySbx[sandbox], func(f writtenFile) bool { return f.path == path })
	w.bySbx[sandbox] = append(files, writtenFile{path, time.Now()})
}

func (w *writtenFiles) of(sandbox string) []writtenFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.bySbx[sandbox])
}

func (w *writtenFiles) forget(sandbox string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bySbx, sandbox)
}

type dockerfileOut struct {
	Dockerfile string   `json:"dockerfile"`
	LeftOut    []string `json:"left_out,omitempty" jsonschema:"what it does not repeat, and why"`
}

func (o dockerfileOut) text() string {
	if len(o.LeftOut) == 0 {
		return o.Dockerfile
	}
	return o.Dockerfile + "\nLeft out:\n- " + strings.Join(o.LeftOut, "\n- ")
}

// inlineFile is how large a file may be to stand in a Dockerfile.
const inlineFile = 64 << 10

// dockerfile writes down what was done in a sandbox: the image, the files that this server wrote, and the
// commands that succeeded.
func dockerfile(ctx context.Context, c *call, in sandboxIn) (dockerfileOut, error) {
	sb, err := c.resolve(ctx, in.Sandbox)
	if err != nil {
		return dockerfileOut{}, err
	}
	ref := sb.Ref()
	execs, err := c.service.Execs(ctx, ref)
	if err != nil {
		return dockerfileOut{}, err
	}
	var out dockerfileOut
	image := sb.Image
	if image == "" || image == "host" {
		image = "debian:stable"
		out.LeftOut = append(out.LeftOut, "the image: the sandbox runs on this machine's own programs, so "+image+" stands in for them")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# syntax=docker/dockerfile:1\nFROM %s\n", image)
	if dir := sb.Spec.Workdir; dir != "" {
		fmt.Fprintf(&b, "WORKDIR %s\n", dir)
	}
	for _, name := range sortedKeys(sb.Spec.Env) {
		value, _ := json.Marshal(sb.Spec.Env[name])
		fmt.Fprintf(&b, "ENV %s=%s\n", name, value)
	}
	files := c.server.written.of(sb.ID)
	place := func(all bool, before time.Time) {
		for len(files) > 0 && (all || files[0].at.Before(before)) {
			if why := c.copyStep(ctx, &b, ref, files[0].path); why != "" {
				out.LeftOut = append(out.LeftOut, files[0].path+": "+why)
			}
			files = files[1:]
		}
	}
	for _, e := range execs {
		place(false, e.Started)
		switch {
		case e.Exit == nil:
			out.LeftOut = append(out.LeftOut, "command "+e.ID+", which has not ended")
		case e.Exit.Code != 0:
			out.LeftOut = append(out.LeftOut, fmt.Sprintf("command %s, which ended with %d", e.ID, e.Exit.Code))
		default:
			argv, _ := json.Marshal(c.cleanArgv(sb.ID, e.Command))
			fmt.Fprintf(&b, "RUN %s\n", argv)
		}
	}
	place(true, time.Time{})
	out.Dockerfile = b.String()
	return out, nil
}

func sortedKeys(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// copyStep writes a file as a step, or says why it cannot.
func (c *call) copyStep(ctx context.Context, b *strings.Builder, ref, path string) (why string) {
	content, err := c.service.ReadFile(ctx, ref, path)
	if err != nil {
		return core.KindOf(err).String()
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(io.LimitReader(content, inlineFile+1))
	switch {
	case err != nil:
		return "it cannot be read"
	case len(data) > inlineFile:
		return "it is too large to stand in a Dockerfile"
	case !isText(data):
		return "it is not text"
	}
	text := c.server.secrets.clean(ref[strings.Index(ref, "/")+1:], string(data))
	end := "EOF"
	for strings.Contains(text, end) {
		end += "_"
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	name, _ := json.Marshal(path)
	fmt.Fprintf(b, "COPY <<\"%s\" %s\n%s%s\n", end, name, text, end)
	return ""
}
