//go:build linux

package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// greeter listens, prints that it does, and answers each line of a connection, and its end.
const greeter = `
import socket, sys, threading
def serve(c):
    for line in c.makefile('rb'):
        c.sendall(b'got ' + line)
    c.sendall(b'bye\n')
    c.close()
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
print(1, flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
`

// listening starts the greeter and waits until it listens.
func listening(t *testing.T, p *Provider, id, address string, port int) {
	t.Helper()
	serving(t, p, id, greeter, address, port)
}

// serving starts a program and waits until it reports that it listens.
func serving(t *testing.T, p *Provider, id, program, address string, port int) {
	t.Helper()
	server, err := p.Exec(
		t.Context(), id, core.ExecSpec{Command: []string{"python3", "-c", program, address, fmt.Sprint(port)}, Detach: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, "the server listens", func() bool { return counted(t, p, id, server.ID()) == 1 })
}

func TestDialPort(t *testing.T) {
	for _, mode := range []core.NetworkMode{core.NetworkNone, core.NetworkAll} {
		t.Run(string(mode), func(t *testing.T) {
			p, sb := crashed(t, func(spec *core.Spec) { spec.Network.Mode = mode })
			listening(t, p, sb.ID, "127.0.0.1", 7001)
			listening(t, p, sb.ID, "0.0.0.0", 7002)
			for _, port := range []int{7001, 7002} {
				conn, err := p.DialPort(t.Context(), sb.ID, port)
				if err != nil {
					t.Fatal(err)
				}
				if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, "hello\n"); err != nil {
					t.Fatal(err)
				}
				from := bufio.NewReader(conn)
				if line, err := from.ReadString('\n'); err != nil || line != "got hello\n" {
					t.Errorf("port %d answers %q, %v", port, line, err)
				}
				if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				if rest, err := io.ReadAll(from); err != nil || string(rest) != "bye\n" {
					t.Errorf("port %d: after the end of one direction it answers %q, %v", port, rest, err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// digester answers with the digest of its whole input. It reads small pieces, so that writers must wait.
const digester = `
import hashlib, socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
print(1, flush=True)
c, h = s.accept()[0], hashlib.sha256()
while part := c.recv(1000):
    h.update(part)
c.sendall(h.digest())
c.close()
`

// TestDialPortLosesNothing sends more bytes than all buffers on the way hold.
func TestDialPortLosesNothing(t *testing.T) {
	p, sb := crashed(t, nil)
	for port, address := range map[int]string{7001: "127.0.0.1", 7002: "0.0.0.0"} {
		serving(t, p, sb.ID, digester, address, port)
		conn, err := p.DialPort(t.Context(), sb.ID, port)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
			t.Fatal(err)
		}
		digest := sha256.New()
		if _, err := io.Copy(conn, io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), 8<<20), digest)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, digest.Sum(nil)) {
			t.Errorf("at %s other bytes came than were sent, %v", address, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDialPortLetsGo connects to a service that ignores the end of input. The sandbox is idle after the client has
// disconnected.
func TestDialPortLetsGo(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "0.0.0.0"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			p, sb := crashed(t, func(spec *core.Spec) {
				spec.Network.Mode, spec.IdleTimeout = core.NetworkAll, core.Duration(time.Second)
			})
			const deaf = `python3 -c "import socket, time; s = socket.create_server(('%s', 7001)); print(1, flush=True); c = s.accept(); time.sleep(600)" \
				>/tmp/out 2>&1 & until grep -q 1 /tmp/out; do sleep 0.02; done`
			if out := output(t, p, sb.ID, fmt.Sprintf(deaf, address)); out != "" {
				t.Fatal(out)
			}
			conn, err := p.DialPort(t.Context(), sb.ID, 7001)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			within(t, "it is idle", func() bool {
				got, err := p.Get(t.Context(), sb.ID)
				return err == nil && got.Reason == core.ReasonIdle
			})
			if _, err := p.DialPort(t.Context(), sb.ID, 7001); !errors.Is(err, core.KindConflict) {
				t.Errorf("of one that has ended: %v", err)
			}
		})
	}
}

func TestDialPortWakesAFrozenSandbox(t *testing.T) {
	p, sb := crashed(t, nil)
	within(t, "it freezes", func() bool {
		got, err := p.Get(t.Context(), sb.ID)
		return err == nil && got.Frozen
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := p.DialPort(ctx, sb.ID, 7001); !errors.Is(err, core.KindUnavailable) {
		t.Errorf("%v", err)
	}
	if err := p.Pause(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DialPort(ctx, sb.ID, 7001); !errors.Is(err, core.KindConflict) {
		t.Errorf("of a paused one: %v", err)
	}
}
