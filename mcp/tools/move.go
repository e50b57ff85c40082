package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type moveIn struct {
	Sandbox string            `json:"sandbox"`
	To      string            `json:"to" jsonschema:"provider: local, docker or modal"`
	Name    string            `json:"name,omitempty" jsonschema:"default: the same name"`
	Image   string            `json:"image,omitempty" jsonschema:"default: the same image"`
	GPU     string            `json:"gpu,omitempty" jsonschema:"TYPE or TYPE:COUNT. It costs money"`
	Secrets map[string]string `json:"secrets,omitempty" jsonschema:"needed again: their values do not move"`
	Paths   []string          `json:"paths,omitempty" jsonschema:"absolute paths to move; default: all that differs from the image"`
	Keep    bool              `json:"keep_source,omitempty" jsonschema:"keeps the source running"`
}

type moveOut struct {
	Sandbox  SandboxInfo `json:"sandbox" jsonschema:"where it is now"`
	Files    int         `json:"files"`
	Bytes    int64       `json:"bytes"`
	Warnings []string    `json:"warnings,omitempty" jsonschema:"differences from the source"`
}

func (o moveOut) Text() string {
	lines := append([]string{fmt.Sprintf("moved %d files, %d bytes", o.Files, o.Bytes), o.Sandbox.Text()}, o.Warnings...)
	return strings.Join(lines, "\n")
}

func moveTools() []Tool {
	return []Tool{Define(Tool{
		Name: "sandbox_move", Title: "Move a sandbox", Toolset: setup.State, Extra: true, Destructive: true, OpenWorld: true,
		Continues: true,
		Description: "Launch a sandbox again at another provider with its files, but without its processes. The " +
			"source " +
			"ends when the copy is complete.",
	}, move)}
}

func move(ctx context.Context, c *Call, in moveIn) (moveOut, error) {
	source, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return moveOut{}, err
	}
	opts := service.MoveOptions{
		To: in.To, Name: in.Name, Image: in.Image, Secrets: secretsOf(in.Secrets), Paths: in.Paths, Keep: in.Keep,
		Progress: func(p core.Progress) { c.Progress(ctx, p.Step) },
	}
	gpu := source.GPU
	if in.GPU != "" {
		if gpu, err = core.ParseGPU(in.GPU); err != nil {
			return moveOut{}, err
		}
		opts.GPU = &gpu
	}
	if !gpu.IsZero() {
		if err := c.confirm(
			ctx, "gpu",
			fmt.Sprintf("Move sandbox %s to %s with GPU %s? It costs money for as long as it runs.", source.Name, in.To, gpu),
		); err != nil {
			return moveOut{}, err
		}
	}
	result, err := c.Service.Sandboxes.Move(ctx, source.Ref(), opts)
	if err != nil {
		return moveOut{}, err
	}
	c.Host.Secrets.add(result.Target.ID, opts.Secrets)
	c.Host.launched.move(source.Ref(), result.Target.Ref(), result.Kept)
	if !result.Kept {
		c.Session.Release(source.Ref())
	}
	c.adopt(result.Target)
	return moveOut{
		Sandbox: InfoOf(result.Target), Files: result.Files, Bytes: result.Bytes, Warnings: result.Warnings,
	}, nil
}
