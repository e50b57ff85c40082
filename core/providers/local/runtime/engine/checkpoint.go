//go:build linux

package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/sandbox"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

// Checkpoint writes the whole sandbox to dir, an empty directory: processes, memory and filesystem. The sandbox stops
// during the write and then continues with its connections. Config.Image accepts dir any number of times. The files are
// not compressed: compression takes ten times as long as the write.
func (b *Box) Checkpoint(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := b.call(func(c *container.Container) error {
		return c.Checkpoint(b.runtime, dir, sandbox.CheckpointOpts{Compression: statefile.CompressionLevelNone, Resume: true})
	})
	if err != nil {
		what, _, _ := strings.Cut(err.Error(), "\n") // a trace of gVisor's kernel follows
		return written(dir, fmt.Errorf("saving the sandbox: %s", what))
	}
	return private(dir)
}

// private makes the files of a directory readable for their owner only. gVisor makes them readable for all users.
func private(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// goOn resumes the sandbox from the files of Checkpoint.
func (b *Box) goOn(ctx context.Context) error {
	image, err := b.config.Image(ctx)
	if err != nil {
		return err
	}
	network, err := b.config.Network.links()
	if err != nil {
		return err
	}
	defer network.close()
	if err := b.container.Restore(b.runtime, image, false, false, &network.CreateLinksAndRoutesArgs); err != nil {
		return fmt.Errorf("starting the saved sandbox: %w", err)
	}
	return b.rename(ctx)
}

// rename sets the host name in the sandbox's kernel, which has another one: that of the checkpointed sandbox, or of a
// spare.
func (b *Box) rename(ctx context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	process, err := b.Exec(ctx, Command{
		Argv: guest.HostnameArgv(b.config.Hostname), Dir: "/", Files: []*os.File{null, null, null}, Program: b.guest,
		Hidden: true, admin: true,
	})
	if err != nil {
		return fmt.Errorf("naming the sandbox: %w", err)
	}
	if exit, err := process.Wait(); err != nil || exit != (Exit{}) {
		return fmt.Errorf("naming the sandbox: sb-guest ended with code %d: %w", exit.Code, err)
	}
	return nil
}
