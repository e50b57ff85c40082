//go:build linux

package modaltest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// A sandbox with an open connection is not idle. It ends after the connection closes.
func TestTunnelsAreActivity(t *testing.T) {
	programtest.Long(t)
	const limit = time.Second
	r := newRig(t, nil)
	const accepts = `import socket
s = socket.create_server(("0.0.0.0", 8080))
while True:
    c, _ = s.accept()
    while c.recv(1000):
        pass
    c.close()
`
	for name, dial := range map[string]func(t *testing.T, sb *sdk.Sandbox) string{
		"tunnel": func(t *testing.T, sb *sdk.Sandbox) string {
			t.Helper()
			tunnels, err := sb.Tunnels(t.Context(), time.Minute, nil)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%s:%d", tunnels[8080].Host, tunnels[8080].Port)
		},
		"connect token": func(t *testing.T, sb *sdk.Sandbox) string {
			t.Helper()
			made, err := sb.CreateConnectToken(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimPrefix(made.URL, "http://") + " " + made.Token
		},
	} {
		t.Run(name, func(t *testing.T) {
			sb := r.create(&sdk.SandboxCreateParams{
				Command: []string{"python3", "-c", accepts}, EncryptedPorts: []int{8080}, IdleTimeout: limit,
			})
			// A command keeps the sandbox active until the connection is open.
			busy, err := sb.Exec(
				t.Context(),
				[]string{
					"sh", "-c", "until grep -q ':1F90 [0-9A-F:]* 0A' /proc/net/tcp; do sleep 0.05; done; echo listens; exec cat",
				},
				nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(busy.Stdout, make([]byte, len("listens\n"))); err != nil {
				t.Fatal(err)
			}
			address, token, _ := strings.Cut(dial(t, sb), " ")
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if token != "" {
				if _, err := fmt.Fprintf(
					conn, "GET / HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer %s\r\n\r\n", token,
				); err != nil {
					t.Fatal(err)
				}
			}
			if err := busy.Stdin.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := busy.Wait(providertest.Patient(t), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * limit) // the test needs the time itself
			if code, err := sb.Poll(t.Context(), nil); err != nil || code != nil {
				t.Fatalf("with a connection it has ended: %v, %v", code, err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := sb.Wait(providertest.Patient(t), nil); err != nil {
				t.Errorf("without a connection: %v", err)
			}
		})
	}
}
