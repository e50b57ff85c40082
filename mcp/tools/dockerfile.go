package tools

import (
	"context"

	"github.com/seed-0724f904/sb/core/service"
)

// DockerfileOut is a Dockerfile.
type DockerfileOut struct {
	Dockerfile string `json:"dockerfile"`
}

// Text implements texter.
func (o DockerfileOut) Text() string { return o.Dockerfile }

// Dockerfile writes a Dockerfile of a sandbox: its image, the small text files that were written, and the commands that
// succeeded. Comments name the other files that differ from the image.
func Dockerfile(ctx context.Context, c *Call, in SandboxIn) (DockerfileOut, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return DockerfileOut{}, err
	}
	made, err := c.Service.Sandboxes.ExportDockerfile(
		ctx, sb.Ref(), service.DockerfileOptions{Replay: true, Clean: c.Host.Secrets.Of(sb.ID)},
	)
	return DockerfileOut{made.Text}, err
}
