package docker

import (
	"net"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// pipeLine is a line whose other end takes nothing.
type pipeLine struct{ net.Conn }

// CloseWrite implements line.
func (pipeLine) CloseWrite() error { return nil }

func (pipeLine) said() []byte { return nil }

// TestCloseDoesNotWaitForInput gives up a command while a piece of its stdin is on its way and nobody takes it.
func TestCloseDoesNotWaitForInput(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	p := &process{call: &call{line: pipeLine{ours}}, done: make(chan struct{}), credit: make(chan struct{}, 1), window: wire.StdinWindow}
	close(p.done)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		p.feed(strings.NewReader("never taken"), true)
	}()
	// Its first byte was taken, so the rest is being sent.
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-fed
}
