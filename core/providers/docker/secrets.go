package docker

import (
	"archive/tar"
	"context"
	"io"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// maxSecrets bounds the bytes that are read of a sandbox's secrets.
const maxSecrets = 8 << 20

// keptSecrets reads the secrets of a sandbox's launch. They are only in its volume, encrypted.
func (e containers) keptSecrets(ctx context.Context, sb core.Sandbox, k known) (map[string]string, error) {
	if len(sb.Spec.Secrets) == 0 {
		return nil, nil
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	copied, err := e.Client.CopyFromContainer(
		ctx, k.container, client.CopyFromContainerOptions{SourcePath: k.dir.Secrets()},
	)
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, engine.Classify(ctx, "secrets", sb.Name, err)
	}
	var secrets map[string]string
	if err == nil {
		defer func() { _ = copied.Content.Close() }()
		var sealed []byte
		r := tar.NewReader(copied.Content)
		if _, err = r.Next(); err == nil {
			sealed, err = io.ReadAll(io.LimitReader(r, maxSecrets))
		}
		if err == nil {
			secrets, err = wire.OpenSecrets(k.key, sealed)
		}
	}
	if err != nil {
		return nil, core.Errorf(
			core.KindConflict, "docker.secrets", sb.Name,
			"its secrets cannot be read, root inside may have changed them: %w", err,
		).WithHint("keep its files with: sb snapshot %s NAME; then launch from the snapshot with the secrets", sb.Name)
	}
	return secrets, nil
}
