package modaltest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// ahead is the most bytes that a writer may be ahead of its furthest reader before it waits.
const ahead = 256 << 20

// spool stores a command's output to one stream from its beginning. A reader can resume after a lost connection.
type spool struct {
	file *os.File

	mu      sync.Mutex
	changed chan struct{}
	size    int64
	read    int64 // the offset of the furthest reader
	closed  bool
	// pieces records the times of writes.
	pieces []piece
}

// piece is output that was written at one time.
type piece struct {
	begin, end int64
	time       time.Time
}

// Many small writes must not need more memory than their data. Beyond manyPieces, all output within pieceTime is one
// piece.
const (
	manyPieces = 10_000
	pieceTime  = 10 * time.Millisecond
)

// note records the time of a write of n bytes. The caller holds mu.
func (s *spool) note(n int) {
	now := time.Now()
	if last := len(s.pieces) - 1; last >= manyPieces && now.Sub(s.pieces[last].time) < pieceTime {
		s.pieces[last].end += int64(n)
		return
	}
	s.pieces = append(s.pieces, piece{s.size, s.size + int64(n), now})
}

// between returns the pieces from since until before until, and their content.
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
	// The open file needs no name. Without a name, it does not remain after a crash.
	return &spool{file: file, changed: make(chan struct{})}, os.Remove(file.Name())
}

// wake wakes all waiters. The caller holds mu.
func (s *spool) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Write appends. It waits if the furthest reader is too far behind.
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

// end marks the end of the output.
func (s *spool) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.wake()
	}
}

// free releases the storage.
func (s *spool) free() error {
	s.end()
	return s.file.Close()
}

// next waits for output at an offset and returns it; io.EOF after the end.
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
