package docker

import (
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// Without an engine, the finding lists the addresses that were searched.
func TestCheckListsSearchedAddresses(t *testing.T) {
	p, err := New(Options{
		LookupEnv: dockertest.Environment(map[string]string{"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/user/7"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := p.(*Provider)
	if !ok {
		t.Fatalf("%T", p)
	}
	for _, socket := range []string{
		"unix:///var/run/docker.sock", "unix:///run/user/7/podman/podman.sock", "unix:///home/me/.colima/default/docker.sock",
	} {
		if got := provider.looked(); !strings.Contains(got, socket) {
			t.Errorf("it says %q, without %s", got, socket)
		}
	}
}

func TestFirstAnsweringSocket(t *testing.T) {
	runtime := t.TempDir()
	// The first is a leftover of a server that has ended.
	sockets := map[string]bool{"docker.sock": false, "podman/podman.sock": true}
	if err := os.Mkdir(filepath.Join(runtime, "podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, serves := range sockets {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(runtime, name))
		if err != nil {
			t.Fatal(err)
		}
		if !serves {
			if unix, ok := listener.(*net.UnixListener); ok {
				unix.SetUnlinkOnClose(false)
			}
			_ = listener.Close()
			continue
		}
		server := httptest.NewUnstartedServer(dockertest.Imitation())
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
	}
	for _, system := range []string{"/var/run/docker.sock", "/run/podman/podman.sock"} {
		if _, err := os.Stat(system); err == nil {
			t.Logf("this machine has an engine of its own at %s, which comes first", system)
			return
		}
	}
	p, err := New(Options{
		LookupEnv: dockertest.Environment(map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": runtime}),
	})
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := p.(*Provider)
	if !ok {
		t.Fatalf("a %T", p)
	}
	t.Cleanup(func() { _ = p.Close() })
	e, err := provider.connect(t.Context())
	if err != nil || e.At.Why != "rootless Podman" || e.Version != "Docker/1.2.3" {
		t.Fatalf("found %+v, %v", e, err)
	}
	findings := provider.found(t.Context())
	if len(findings) != 2 || findings[0].Status != statusWarning || findings[1].Status != statusOK {
		t.Errorf("the doctor finds %+v", findings)
	}
}

// A password in an engine's address is refused and appears in no error.
func TestPasswordInAddress(t *testing.T) {
	for _, host := range []string{"ssh://me:s3cret@far", "tcp://me:s3cret@127.0.0.1:1", "ssh://me:s3cret@far:x"} {
		p := &Provider{opts: Options{Host: host, LookupEnv: dockertest.Environment(nil)}}
		_, err := p.connect(t.Context())
		wantKind(t, err, core.KindUnavailable)
		for _, finding := range p.Diagnose(t.Context()) {
			err = errors.Join(err, errors.New(finding.Detail), errors.New(finding.Fix))
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("it says %v", err)
		}
	}
}
