package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// maxConfig bounds the bytes that are read of a sandbox's configuration.
const maxConfig = 8 << 20

// keptSecrets reads the secrets of a sandbox's launch. They are only in its volume, where only its root can read them.
func (e containers) keptSecrets(ctx context.Context, k known) (map[string]string, error) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	copied, err := e.Client.CopyFromContainer(
		ctx, k.container, client.CopyFromContainerOptions{SourcePath: k.dir.Config()},
	)
	if err != nil {
		return nil, engine.Classify(ctx, "start", k.container, err)
	}
	r := tar.NewReader(copied.Content)
	_, err = r.Next()
	var config wire.Config
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxConfig)).Decode(&config)
	}
	return config.Secrets, engine.Classify(ctx, "start", k.container, errors.Join(err, copied.Content.Close()))
}
