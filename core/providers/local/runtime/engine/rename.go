//go:build linux

package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Rename changes the host name of a sandbox in which no process but the first has run. The sandbox has no RootImage.
func (b *Box) Rename(ctx context.Context, hostname string) error {
	b.config.Hostname = hostname
	etc := filepath.Join("/proc/self/fd", strconv.Itoa(int(b.view.Fd())), "etc")
	// The gofer shows the same files. gVisor has read none of them yet.
	for name, text := range identity(b.config) {
		//nolint:gosec // these are the world-readable files of a sandbox's /etc
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("naming the sandbox: %w", err)
		}
	}
	return b.rename(ctx)
}
