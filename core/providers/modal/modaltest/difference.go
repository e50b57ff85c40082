package modaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// changed lists what is younger than a moment, and packs it. What the system makes by itself is left out. Below
// /usr, which is too large to look at each file of it, only directories are looked at and what is in those that
// changed: a file there that was written over in its place is missed.
const changed = `cd / && { find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./usr -o -path "./tmp/.sb-guest*" \) -prune -o -newerct "$1" ! -type s ! -path . -print0
find ./usr -xdev \( -path ./usr/share/doc -o -path ./usr/share/man -o -path ./usr/share/locale -o -path ./usr/share/icons -o -path ./usr/include -o -path ./usr/src \) -prune -o -type d -newerct "$1" -exec find {} -maxdepth 1 -newerct "$1" ! -type s -print0 \; ; } |
tar --create --null --no-recursion --files-from=- --file=-`

// difference packs what changed in a sandbox since a moment, and returns the archive's path. What was
// removed is not in it.
func (s *Server) difference(ctx context.Context, id string, since time.Time) (path string, err error) {
	file, err := os.CreateTemp(s.dir, "layer-*.tar")
	if err != nil {
		return "", err
	}
	var complaints bytes.Buffer
	process, err := s.opts.Backend.Exec(ctx, id, core.ExecSpec{Command: []string{"sh", "-c", changed, "sh", fmt.Sprintf("@%.6f", unix(since))}, Stdout: file, Stderr: &complaints})
	if err == nil {
		var exit core.Exit
		exit, err = process.Wait(ctx)
		_ = process.Close()
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("packing the sandbox's changes: exit code %d: %s", exit.Code, complaints.Bytes())
		}
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return file.Name(), err
}

// unpack puts layers into a sandbox, in order.
func (s *Server) unpack(ctx context.Context, id string, layers []string) error {
	for _, layer := range layers {
		file, err := os.Open(layer)
		if err != nil {
			return err
		}
		var complaints bytes.Buffer
		process, err := s.opts.Backend.Exec(ctx, id, core.ExecSpec{
			Command: []string{"tar", "--extract", "--preserve-permissions", "--directory=/", "--file=-"}, Stdin: file, Stderr: &complaints,
		})
		if err == nil {
			var exit core.Exit
			exit, err = process.Wait(ctx)
			_ = process.Close()
			if err == nil && exit.Code != 0 {
				err = fmt.Errorf("unpacking a layer: exit code %d: %s", exit.Code, complaints.Bytes())
			}
		}
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unpackInto unpacks an archive into a directory of a sandbox.
func (s *Server) unpackInto(ctx context.Context, id, archive, target string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	err = s.shell(ctx, id, file, nil, `tar --extract --preserve-permissions --directory="$1" --file=-`, target)
	return errors.Join(err, file.Close())
}

// shell runs a script in a backend's sandbox and demands that it succeeds.
func (s *Server) shell(ctx context.Context, id string, stdin io.Reader, stdout io.Writer, script string, args ...string) error {
	var complaints textBuffer
	process, err := s.opts.Backend.Exec(ctx, id, core.ExecSpec{Command: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Stdout: stdout, Stderr: &complaints})
	if err != nil {
		return err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("a helper command ended with %d: %s", exit.Code, complaints.text)
	}
	return err
}

// textBuffer keeps the beginning of what is written to it.
type textBuffer struct{ text []byte }

func (b *textBuffer) Write(p []byte) (int, error) {
	if room := 4096 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// runIn runs a command to its end.
func (s *Server) runIn(ctx context.Context, id, workdir string, command []string, output io.Writer) (int, error) {
	process, err := s.opts.Backend.Exec(ctx, id, core.ExecSpec{Command: command, Workdir: workdir, Stdout: output, Stderr: output})
	if err != nil {
		return 0, err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	return exit.Code, err
}

// backendName is what the backend calls the sandbox of an id.
func backendName(id string) string {
	name := []byte("modal-" + id[3:])
	return string(bytes.ToLower(name))
}

// lease says for whom the backend's sandboxes are: this process.
func (s *Server) lease(life time.Duration) core.Lease {
	lease := core.Lease{Owner: core.CurrentOwner("modal"), Created: time.Now().UTC(), Bound: true}
	if life > 0 {
		lease.Expires = lease.Created.Add(life)
	}
	return lease
}

// outside is the widest network that the backend has.
func (s *Server) outside() core.NetworkMode {
	if s.opts.Backend.Capabilities().Can(core.CapNetAll) {
		return core.NetworkAll
	}
	return core.NetworkDefault
}
