package engine

import (
	"strings"
	"sync"
)

// Tail keeps the end of the text that is written to it. It may be written to and read at the same time.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is how much it keeps, in bytes.
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

// String returns it without white space at its ends.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
