package modaltest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// ahead is how far a writer may get before its furthest reader, in bytes; then it waits.
const ahead = 256 << 20

// spool keeps what a command wrote to one stream, from its beginning. A reader that lost its connection can resume.
type spool struct {
	file *os.File

	mu      sync.Mutex
	changed chan struct{}
	size    int64
	read    int64 // the furthest byte that anybody read
	closed  bool
	// pieces say when what was written.
	pieces []piece
}

// piece is what was written at one time.
type piece struct {
	begin, end int64
	time       time.Time
}

// A flood of small writes must not cost more than itself: once there are manyPieces, what comes within pieceTime is
// one.
const (
	manyPieces = 10_000
	pieceTime  = 10 * time.Millisecond
)

// note keeps when something was written. The caller holds mu.
func (s *spool) note(n int) {
	now := time.Now()
	if last := len(s.pieces) - 1; last >= manyPieces && now.Sub(s.pieces[last].time) < pieceTime {
		s.pieces[last].end += int64(n)
		return
	}
	s.pieces = append(s.pieces, piece{s.size, s.size + int64(n), now})
}

// between returns what was written in a time, as pieces with their content. until is left out.
func (s *spool) between(since, until time.Time) ([]piece, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pieces []piece
	var texts []string
	for _, p := range s.pieces {
		if p.time.Before(since) || !p.time.Before(until) {
			continue
		}
		data := make([]byte, p.end-p.begin)
		if _, err := s.file.ReadAt(data, p.begin); err != nil {
			return nil, nil, err
		}
		pieces, texts = append(pieces, p), append(texts, string(data))
	}
	return pieces, texts, nil
}

func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, err
	}
	// The open file needs no name. Without one it is never left behind.
	return &spool{file: file, changed: make(chan struct{})}, os.Remove(file.Name())
}

// wake tells everybody who waits. The caller holds mu.
func (s *spool) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Write appends; it waits for readers that are far behind.
func (s *spool) Write(p []byte) (int, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return 0, os.ErrClosed
		}
		if s.size-s.read < ahead {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		<-changed
	}
	defer s.mu.Unlock()
	n, err := s.file.WriteAt(p, s.size)
	s.note(n)
	s.size += int64(n)
	s.wake()
	return n, err
}

// end says that nothing more will be written.
func (s *spool) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.wake()
	}
}

// free gives the storage back.
func (s *spool) free() error {
	s.end()
	return s.file.Close()
}

// next returns what stands at an offset, waiting for it; io.EOF after the end.
func (s *spool) next(ctx context.Context, offset int64, most int) ([]byte, error) {
	for {
		s.mu.Lock()
		size, closed, changed := s.size, s.closed, s.changed
		if offset > s.read {
			s.read = offset
			s.wake()
			changed = s.changed
		}
		s.mu.Unlock()
		if offset < size {
			data := make([]byte, min(int64(most), size-offset))
			n, err := s.file.ReadAt(data, offset)
			if n > 0 || errors.Is(err, io.EOF) {
				err = nil
			}
			return data[:n], err
		}
		if closed {
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
