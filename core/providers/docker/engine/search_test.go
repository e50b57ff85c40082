package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// writeContext stores a context in the format of the docker command.
func writeContext(t *testing.T, config, name, meta string, tls map[string][]byte) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	files := map[string][]byte{filepath.Join("meta", id, "meta.json"): []byte(meta)}
	for file, content := range tls {
		files[filepath.Join("tls", id, "docker", file)] = content
	}
	for file, content := range files {
		path := filepath.Join(config, "contexts", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEngineAddresses(t *testing.T) {
	home := t.TempDir()
	config := filepath.Join(home, ".docker")
	writeContext(t, config, "remote", `{"Name":"remote","Endpoints":{"docker":{"Host":"ssh://me@far"}}}`, nil)
	writeContext(t, config, "broken", `{"Endpoints":{}}`, nil)
	if err := os.WriteFile(
		filepath.Join(config, "config.json"), []byte(`{"currentContext":"remote"}`), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	for _, test := range []struct {
		name   string
		host   string
		env    map[string]string
		want   Place
		chosen bool
		kind   core.Kind
	}{
		{
			"setting", "tcp://a:1",
			map[string]string{"DOCKER_HOST": "tcp://b:1"},
			Place{Why: "docker.host", Host: "tcp://a:1"},
			true, 0,
		},
		{
			"DOCKER_HOST before the context", "",
			map[string]string{"HOME": home, "DOCKER_HOST": "tcp://b:1"},
			Place{Why: "DOCKER_HOST", Host: "tcp://b:1"},
			true, 0,
		},
		{
			"TLS", "",
			map[string]string{"HOME": home, "DOCKER_HOST": "tcp://b:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"},
			Place{Why: "DOCKER_HOST", Host: "tcp://b:1", TLS: "/certs"},
			true, 0,
		},
		{"current context", "", map[string]string{"HOME": home}, Place{Why: "context remote", Host: "ssh://me@far"}, true, 0},
		{
			"DOCKER_CONTEXT", "", map[string]string{"HOME": home, "DOCKER_CONTEXT": "gone"}, Place{}, true, core.KindUnavailable,
		},
		{
			"context without an engine", "",
			map[string]string{"HOME": home, "DOCKER_CONTEXT": "broken"},
			Place{},
			true,
			core.KindUnavailable,
		},
		{
			"default context", "",
			map[string]string{"HOME": home, "DOCKER_CONTEXT": "default"},
			Place{Why: "Docker", Host: "unix:///var/run/docker.sock"},
			false, 0,
		},
		{
			"CONTAINER_HOST", "",
			map[string]string{"HOME": other, "CONTAINER_HOST": "unix:///p"},
			Place{Why: "CONTAINER_HOST", Host: "unix:///p"},
			true, 0,
		},
		{
			"nothing", "", map[string]string{"HOME": other}, Place{Why: "Docker", Host: "unix:///var/run/docker.sock"}, false, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Search{Host: test.host, LookupEnv: dockertest.Environment(test.env)}
			list, chosen, err := s.Places()
			if test.kind != 0 {
				if !errors.Is(err, test.kind) {
					t.Errorf("error is %v, want %v", err, test.kind)
				}
				return
			}
			if err != nil || chosen != test.chosen {
				t.Fatalf("chosen %v, %v", chosen, err)
			}
			if diff := cmp.Diff(test.want, list[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConnectGivesUpWithItsCaller(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s := Search{Host: "unix://" + listener.Addr().String(), LookupEnv: dockertest.Environment(nil)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Connect(ctx)
	if !errors.Is(err, core.KindCanceled) {
		t.Errorf("error is %v", err)
	}
}
