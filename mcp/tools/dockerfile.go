package tools

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// writtenFiles records the files that this server wrote into sandboxes, with the time of each write.
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

func (w *writtenFiles) Of(sandbox string) []writtenFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.bySbx[sandbox])
}

func (w *writtenFiles) forget(sandbox string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bySbx, sandbox)
}

// DockerfileOut is a Dockerfile and the files that it lacks.
type DockerfileOut struct {
	Dockerfile string   `json:"dockerfile"`
	LeftOut    []string `json:"left_out,omitempty" jsonschema:"files that it does not have, and why; what else it does not repeat is in its comments"`
}

// Text implements texter.
func (o DockerfileOut) Text() string {
	if len(o.LeftOut) == 0 {
		return o.Dockerfile
	}
	return o.Dockerfile + "\nLeft out:\n- " + strings.Join(o.LeftOut, "\n- ")
}

// inlineFile bounds the size of a file in a Dockerfile, in bytes.
const inlineFile = 64 << 10

// Dockerfile writes a Dockerfile of a sandbox: its image, the files that this server wrote, and the commands that
// succeeded.
func Dockerfile(ctx context.Context, c *Call, in SandboxIn) (DockerfileOut, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return DockerfileOut{}, err
	}
	opts := service.DockerfileOptions{Clean: c.Host.Secrets.Of(sb.ID)}
	var out DockerfileOut
	for _, written := range c.Host.written.Of(sb.ID) {
		file := service.DockerfileFile{Path: written.path, Written: written.at}
		why := ""
		if file.Content, file.Executable, why = c.inline(ctx, sb.Ref(), written.path); why != "" {
			out.LeftOut = append(out.LeftOut, written.path+": "+why)
			continue
		}
		opts.Files = append(opts.Files, file)
	}
	out.Dockerfile, err = c.Service.Sandboxes.ExportDockerfile(ctx, sb.Ref(), opts)
	return out, err
}

// inline reads a file for a Dockerfile. why is the reason for leaving it out.
func (c *Call) inline(ctx context.Context, ref, name string) (text string, executable bool, why string) {
	info, err := c.Service.Files.Stat(ctx, ref, name)
	if err != nil {
		return "", false, core.KindOf(err).String()
	}
	content, err := c.Service.Files.ReadFile(ctx, ref, name)
	if err != nil {
		return "", false, core.KindOf(err).String()
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(io.LimitReader(content, inlineFile+1))
	switch {
	case err != nil:
		return "", false, "it cannot be read"
	case len(data) > inlineFile:
		return "", false, "it is too large to stand in a Dockerfile"
	case !reply.IsText(data):
		return "", false, "it is not text"
	}
	return string(data), info.Mode&0o111 != 0, ""
}
