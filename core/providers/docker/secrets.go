package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// maxConfig bounds what is read of a sandbox's configuration.
const maxConfig = 8 << 20

// keptSecrets reads the secrets that a sandbox was launched with. They are kept in its volume only, where none but
// its root can read them.
func (e *engine) keptSecrets(ctx context.Context, k known) (map[string]string, error) {
	ctx, cancel := within(ctx, askTimeout)
	defer cancel()
	copied, err := e.client.CopyFromContainer(ctx, k.container, client.CopyFromContainerOptions{SourcePath: k.dir.Config()})
	if err != nil {
		return nil, classify(ctx, "start", k.container, err)
	}
	r := tar.NewReader(copied.Content)
	_, err = r.Next()
	var config wire.Config
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxConfig)).Decode(&config)
	}
	return config.Secrets, classify(ctx, "start", k.container, errors.Join(err, copied.Content.Close()))
}
