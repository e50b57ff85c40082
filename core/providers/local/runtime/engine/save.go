//go:build linux

package engine

import (
	"fmt"
	"os"

	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/sandbox"
)

// SaveFS writes the sandbox's filesystem to dir, an empty directory, while the sandbox keeps running. Config.Restore
// accepts dir. The files in dir are durable only after the caller syncs them.
func (b *Box) SaveFS(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := b.call(func(c *container.Container) error { return c.FSSave(b.runtime, dir, sandbox.FSSaveOpts{}) })
	if err != nil {
		return written(dir, fmt.Errorf("saving the filesystem: %w", err))
	}
	return private(dir)
}
