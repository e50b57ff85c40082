package engine

import (
	"strings"
	"sync"
)

// Tail is a writer that keeps the end of its input. It is safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is the size of the kept end, in bytes.
const tailSize = 1 << 10

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// String returns the kept text without white space at its ends.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
