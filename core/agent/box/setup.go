//go:build linux

package box

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// silence bounds the time until the first byte of the setup. Sb sends the setup before the start; a container started
	// by hand receives none.
	silence = 5 * time.Second
	// setupTimeout bounds how long the rest may take.
	setupTimeout = 30 * time.Second
)

// readSetup reads the setup from the process's stdin, and replaces stdin by an empty one.
func readSetup(stdin *os.File) (setup wire.Setup, err error) {
	own, err := unix.FcntlInt(stdin.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return setup, err
	}
	// Only a file that does not block can be read with a deadline.
	if err := unix.SetNonblock(own, true); err != nil {
		return setup, errors.Join(err, unix.Close(own))
	}
	from := os.NewFile(uintptr(own), "setup")
	defer func() { err = errors.Join(err, from.Close()) }()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return setup, err
	}
	defer func() { err = errors.Join(err, nothing.Close()) }()
	if err := unix.Dup3(int(nothing.Fd()), int(stdin.Fd()), 0); err != nil {
		return setup, err
	}
	if err := from.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return setup, err
	}
	reader := bufio.NewReader(from)
	if _, err := reader.Peek(1); errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return setup, errors.New("start it with: sb start NAME, where its container is sb-NAME")
	}
	if err := from.SetReadDeadline(time.Now().Add(setupTimeout)); err != nil {
		return setup, err
	}
	kind, payload, err := wire.ReadFrame(reader, nil)
	switch {
	case err != nil:
		return setup, err
	case kind != wire.FrameSetup:
		return setup, wire.ErrFrame
	}
	if err := json.Unmarshal(payload, &setup); err != nil {
		return setup, err
	}
	return setup, wire.CheckVersion(setup.Version, wire.Version)
}

// keepSecrets writes the secrets for the next start to the sandbox's own volume. Only root can read the file.
func (b *Box) keepSecrets() error {
	// A root process in the sandbox may have put another file there.
	if err := os.RemoveAll(b.dir.Secrets()); err != nil || len(b.config.Secrets) == 0 {
		return err
	}
	sealed, err := wire.SealSecrets(b.key, b.config.Secrets)
	if err != nil {
		return err
	}
	return os.WriteFile(b.dir.Secrets(), sealed, 0o600)
}
