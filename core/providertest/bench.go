package providertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Bench measures the operations that users wait for.
func Bench(b *testing.B, open Opener) {
	b.Helper()
	s := &suite{open: open}
	b.Run("Launch", s.benchLaunch)
	b.Run("ExecTrue", s.benchExec)
	b.Run("Output", s.benchOutput)
	b.Run("List", s.benchList)
	b.Run("Files", s.benchFiles)
	b.Run("Fork", s.benchFork)
	b.Run("Checkpoint", s.benchCheckpoint)
}

// heap launches a sandbox with a Python program that holds 200 MB, which it has written to.
func heap(b *testing.B, p core.Provider) core.Sandbox {
	b.Helper()
	const program = "import os, time; held = os.urandom(1 << 20) * 200; open('/tmp/held', 'w').close(); time.sleep(1e6)"
	sb := launch(b, p, func(spec *core.Spec) { spec.Command = []string{"python3", "-c", program} })
	eventually(b, "the program holds its memory", func() bool {
		return sh(b, p, sb.ID, "test -e /tmp/held").exit.Code == 0
	})
	return sb
}

// benchFork measures a fork until it can run commands.
func (s *suite) benchFork(b *testing.B) {
	p := s.provider(b)
	forker, ok := p.(core.Forker)
	if !ok {
		return
	}
	source := heap(b, p)
	for b.Loop() {
		fork, err := forker.Fork(
			b.Context(), source.ID, core.ForkSpec{Name: core.NewName()},
			core.Lease{Owner: core.CurrentOwner("bench"), Created: time.Now()},
		)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := p.Terminate(b.Context(), fork.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// benchCheckpoint takes checkpoints of a sandbox that keeps running.
func (s *suite) benchCheckpoint(b *testing.B) {
	p := s.provider(b)
	checkpointer, ok := p.(core.Checkpointer)
	if !ok {
		return
	}
	source := heap(b, p)
	for b.Loop() {
		name := core.NewName()
		if _, err := checkpointer.Checkpoint(b.Context(), source.ID, name); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := checkpointer.RemoveCheckpoint(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// benchLaunch measures a launch, its first command and the removal.
func (s *suite) benchLaunch(b *testing.B) {
	p := s.provider(b)
	for b.Loop() {
		sb, err := p.Launch(
			b.Context(), core.Spec{Name: core.NewName(), Image: first(p.Capabilities().Images)},
			core.Lease{Owner: core.CurrentOwner("bench"), Created: time.Now()}, nil,
		)
		if err != nil {
			b.Fatal(err)
		}
		if r := run(b, p, sb.ID, core.ExecSpec{Command: []string{"true"}}); r.exit.Code != 0 {
			b.Fatal(r)
		}
		if err := p.Terminate(b.Context(), sb.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func (s *suite) benchExec(b *testing.B) {
	p := s.provider(b)
	sb := launch(b, p, nil)
	for b.Loop() {
		if r := run(b, p, sb.ID, core.ExecSpec{Command: []string{"true"}}); r.exit.Code != 0 {
			b.Fatal(r)
		}
	}
}

func (s *suite) benchOutput(b *testing.B) {
	const size = 16 << 20
	p := s.provider(b)
	sb := launch(b, p, nil)
	b.SetBytes(size)
	for b.Loop() {
		n := &counter{}
		if r := run(
			b, p, sb.ID, core.ExecSpec{Command: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}, Stdout: n},
		); r.exit.Code != 0 || n.bytes != size {
			b.Fatalf("%d bytes came, %+v", n.bytes, r)
		}
	}
}

func (s *suite) benchList(b *testing.B) {
	p := s.provider(b)
	for range 3 {
		launch(b, p, nil)
	}
	for b.Loop() {
		if all, err := p.List(b.Context()); err != nil || len(all) < 3 {
			b.Fatal(len(all), err)
		}
	}
}

func (s *suite) benchFiles(b *testing.B) {
	p := s.provider(b)
	fsys, ok := p.(core.FileSystem)
	if !ok {
		return
	}
	id := launch(b, p, nil).ID
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	b.Run("Write1MiB", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		for b.Loop() {
			if err := fsys.WriteFile(b.Context(), id, "/tmp/one", bytes.NewReader(content), core.WriteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Read1MiB", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		for b.Loop() {
			r, err := fsys.ReadFile(b.Context(), id, "/tmp/one")
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(content)) {
				b.Fatal(n, err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Import1000", func(b *testing.B) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := range 1000 {
			if err := w.WriteHeader(&tar.Header{
				Name: fmt.Sprint("f", i), Mode: 0o644, Size: 5, Typeflag: tar.TypeReg,
			}); err != nil {
				b.Fatal(err)
			}
			if _, err := io.WriteString(w, "hello"); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		if err := fsys.Mkdir(b.Context(), id, "/tmp/many", true); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := fsys.Import(
				b.Context(), id, "/tmp/many", bytes.NewReader(archive.Bytes()), core.ImportOptions{},
			); err != nil {
				b.Fatal(err)
			}
		}
	})
}
