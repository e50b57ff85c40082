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

// on returns spec with the image as its base.
func (i *image) on(spec core.Spec) core.Spec {
	if i.snapshot != "" {
		spec.Snapshot = i.snapshot
	} else {
		spec.Image = i.base
	}
	return spec
}

// keep makes a snapshot of a backend's sandbox for an image. It returns the backend's id of the snapshot.
func (s *Server) keep(ctx context.Context, box, image string) (string, error) {
	snapshotter, ok := s.opts.Backend.(core.Snapshotter)
	if !ok {
		return "", core.Errorf(core.KindUnsupported, "modal.serve", s.opts.Backend.Name(), "the backend has no snapshots")
	}
	made, err := snapshotter.Snapshot(ctx, box, core.SnapshotOptions{Name: s.opts.SnapshotPrefix + backendName(image)})
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[made.ID] = true
	return made.ID, nil
}

// dropSnapshot removes the snapshot of a removed image, unless other images share it. The caller holds mu.
func (s *Server) dropSnapshot(ctx context.Context, gone *image) {
	for _, other := range s.images {
		if other.snapshot == gone.snapshot {
			return
		}
	}
	if err := s.removeSnapshot(ctx, gone.snapshot); err != nil {
		s.log.WarnContext(ctx, "a snapshot could not be removed", "image", gone.id, "error", err)
	}
}

// removeSnapshot removes a snapshot that keep made. The caller holds mu.
func (s *Server) removeSnapshot(ctx context.Context, id string) error {
	store, ok := s.opts.Backend.(core.SnapshotStore)
	if !ok || !s.snapshots[id] {
		return nil
	}
	delete(s.snapshots, id)
	err := store.RemoveSnapshot(ctx, id)
	if errors.Is(err, core.KindNotFound) {
		return nil
	}
	return err
}

// pack writes the changes of an image on top of its base to a new archive. An image without changes has an empty
// archive.
func (s *Server) pack(ctx context.Context, i *image) (path string, err error) {
	box, err := s.opts.Backend.Launch(
		ctx, i.on(core.Spec{Name: backendName(newID("im-")), App: "modal", Network: core.Network{Mode: s.outside()}}),
		s.lease(0), nil,
	)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.opts.Backend.Terminate(context.WithoutCancel(ctx), box.ID)) }()
	differ, ok := s.opts.Backend.(core.Differ)
	if !ok {
		return "", core.Errorf(
			core.KindUnsupported, "modal.serve", s.opts.Backend.Name(), "the backend does not report changes",
		)
	}
	changes, err := differ.Diff(ctx, box.ID)
	if err != nil {
		return "", err
	}
	var names bytes.Buffer
	for _, c := range changes {
		if c.Kind != "deleted" {
			names.WriteString("." + c.Path + "\x00")
		}
	}
	file, err := os.CreateTemp(s.dir, "image-*.tar")
	if err != nil {
		return "", err
	}
	// A listed file that is missing was removed; tar skips it.
	err = s.shell(
		ctx, box.ID, &names, file,
		"tar --create --directory=/ --ignore-failed-read --null --no-recursion --files-from=- --file=-",
	)
	return file.Name(), errors.Join(err, file.Close())
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

// shell runs a script in a backend's sandbox and returns an error if it fails.
func (s *Server) shell(
	ctx context.Context, id string, stdin io.Reader, stdout io.Writer, script string, args ...string,
) error {
	var complaints textBuffer
	process, err := s.opts.Backend.Exec(
		ctx, id,
		core.ExecSpec{
			Command: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Stdout: stdout, Stderr: &complaints,
		},
	)
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

// textBuffer keeps the beginning of its input.
type textBuffer struct{ text []byte }

func (b *textBuffer) Write(p []byte) (int, error) {
	if room := 4096 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// runIn runs a command to its end. Both its outputs go to output.
func (s *Server) runIn(ctx context.Context, id string, spec core.ExecSpec, output io.Writer) (int, error) {
	spec.Stdout, spec.Stderr = output, output
	process, err := s.opts.Backend.Exec(ctx, id, spec)
	if err != nil {
		return 0, err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	return exit.Code, err
}

// backendName returns the backend's name for the sandbox of an id.
func backendName(id string) string {
	name := []byte("modal-" + id[3:])
	return string(bytes.ToLower(name))
}

// lease returns the lease of the backend's sandboxes, whose owner is this process.
func (s *Server) lease(life time.Duration) core.Lease {
	lease := core.Lease{Owner: core.CurrentOwner("modal"), Created: time.Now().UTC(), Bound: true}
	if life > 0 {
		lease.Expires = lease.Created.Add(life)
	}
	return lease
}

// outside returns the widest network mode of the backend.
func (s *Server) outside() core.NetworkMode {
	if s.opts.Backend.Capabilities().Can(core.CapNetAll) {
		return core.NetworkAll
	}
	return core.NetworkDefault
}
