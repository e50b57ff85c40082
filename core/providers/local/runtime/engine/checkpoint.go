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

// Checkpoint writes the whole sandbox to dir, an empty directory: processes, memory and filesystem. The sandbox stands
// still meanwhile and then continues, its connections included. Config.Image takes dir, any number of times. Nothing is
// compressed: to compress takes ten times as long as to write.
func (b *Box) Checkpoint(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := b.call(func(c *container.Container) error {
		return c.Checkpoint(b.runtime, dir, sandbox.CheckpointOpts{Compression: statefile.CompressionLevelNone, Resume: true})
	})
	if err != nil {
		what, _, _ := strings.Cut(err.Error(), "\n") // a trace of gVisor's kernel follows
		return written(dir, fmt.Errorf("keeping the sandbox: %s", what))
	}
	return private(dir)
}

// private makes the files of a directory readable for their owner only: gVisor makes them for everybody.
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

// goOn starts the sandbox as what Checkpoint wrote.
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
		return fmt.Errorf("starting the sandbox as it was kept: %w", err)
	}
	return b.rename(ctx)
}

// rename gives the sandbox's kernel the host name of this sandbox: it has that of the one that was kept.
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
