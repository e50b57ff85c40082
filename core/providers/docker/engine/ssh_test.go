package engine

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// ssh:// runs ssh, which runs docker at the other end. That docker passes bytes on.
func TestSSH(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(dockertest.Imitation())
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	bin := t.TempDir()
	script := `#!/usr/bin/env python3
import os, socket, sys, threading, time
if os.getsid(0) != os.getsid(os.getppid()):
    sys.exit("without the terminal of sb, where ssh asks for a passphrase")
way = ["-T", "-o", "ConnectTimeout=30", "-l", "me", "-p", "2222", "--", "far", "docker"]
if sys.argv[1:] == way + ["--host", "'unix:///own socket'", "system", "dial-stdio"]:
    time.sleep(2.5) # as when it asks for a passphrase
elif sys.argv[1:] != way + ["system", "dial-stdio"]:
    sys.exit("not that way: %r" % sys.argv)
s = socket.socket(socket.AF_UNIX)
s.connect("` + listener.Addr().String() + `")
def up():
    while True:
        data = sys.stdin.buffer.raw.read(65536)
        if not data:
            s.shutdown(socket.SHUT_WR)
            return
        s.sendall(data)
threading.Thread(target=up, daemon=True).start()
while True:
    data = s.recv(65536)
    if not data:
        break
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
`
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for host, want := range map[string]string{
		"ssh://me@far:2222": "", "ssh://me@far:2222/own%20socket": "", "ssh://me@elsewhere:2222": "not that way",
		"ssh://-oProxyCommand=x": "host",
	} {
		s := Search{Host: host, LookupEnv: dockertest.Environment(nil)}
		e, err := s.Connect(t.Context())
		if want == "" && (err != nil || e.Version != "Docker/1.2.3") || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", host, e, err)
		}
		if err == nil {
			_ = e.Client.Close()
		}
	}
}
