package docker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

// environment makes a LookupEnv of pairs.
func environment(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := pairs[name]
		return value, ok
	}
}

// writeContext keeps a context as the docker command does.
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

func TestPlaces(t *testing.T) {
	home := t.TempDir()
	config := filepath.Join(home, ".docker")
	writeContext(t, config, "remote", `{"Name":"remote","Endpoints":{"docker":{"Host":"ssh://me@far"}}}`, nil)
	writeContext(t, config, "broken", `{"Endpoints":{}}`, nil)
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(`{"currentContext":"remote"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	for _, test := range []struct {
		name   string
		host   string
		env    map[string]string
		want   place
		chosen bool
		kind   core.Kind
	}{
		{"setting", "tcp://a:1", map[string]string{"DOCKER_HOST": "tcp://b:1"}, place{Why: "docker.host", Host: "tcp://a:1"}, true, 0},
		{"DOCKER_HOST before the context", "", map[string]string{"HOME": home, "DOCKER_HOST": "tcp://b:1"}, place{Why: "DOCKER_HOST", Host: "tcp://b:1"}, true, 0},
		{
			"TLS", "",
			map[string]string{"HOME": home, "DOCKER_HOST": "tcp://b:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"},
			place{Why: "DOCKER_HOST", Host: "tcp://b:1", TLS: "/certs"},
			true, 0,
		},
		{"current context", "", map[string]string{"HOME": home}, place{Why: "context remote", Host: "ssh://me@far"}, true, 0},
		{"DOCKER_CONTEXT", "", map[string]string{"HOME": home, "DOCKER_CONTEXT": "gone"}, place{}, true, core.KindUnavailable},
		{"context without an engine", "", map[string]string{"HOME": home, "DOCKER_CONTEXT": "broken"}, place{}, true, core.KindUnavailable},
		{"default context", "", map[string]string{"HOME": home, "DOCKER_CONTEXT": "default"}, place{Why: "Docker", Host: "unix:///var/run/docker.sock"}, false, 0},
		{"CONTAINER_HOST", "", map[string]string{"HOME": other, "CONTAINER_HOST": "unix:///p"}, place{Why: "CONTAINER_HOST", Host: "unix:///p"}, true, 0},
		{"nothing", "", map[string]string{"HOME": other}, place{Why: "Docker", Host: "unix:///var/run/docker.sock"}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Provider{opts: Options{Host: test.host, LookupEnv: environment(test.env)}}
			list, chosen, err := p.places()
			if test.kind != 0 {
				wantKind(t, err, test.kind)
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

// imitation answers what an engine is asked first.
func imitation() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Server", "Docker/1.2.3 (linux)")
		_, _ = io.WriteString(w, "OK")
	})
}

// Who has no engine is told where one was looked for.
func TestLookedFor(t *testing.T) {
	p, err := New(Options{LookupEnv: environment(map[string]string{"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/user/7"})})
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := p.(*Provider)
	if !ok {
		t.Fatalf("%T", p)
	}
	for _, socket := range []string{"unix:///var/run/docker.sock", "unix:///run/user/7/podman/podman.sock", "unix:///home/me/.colima/default/docker.sock"} {
		if got := provider.looked(); !strings.Contains(got, socket) {
			t.Errorf("it says %q, without %s", got, socket)
		}
	}
}

func TestFirstSocketThatAnswers(t *testing.T) {
	runtime := t.TempDir()
	sockets := map[string]bool{"docker.sock": false, "podman/podman.sock": true} // the first is one that nobody serves any more
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
		server := httptest.NewUnstartedServer(imitation())
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
	p, err := New(Options{LookupEnv: environment(map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": runtime})})
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := p.(*Provider)
	if !ok {
		t.Fatalf("a %T", p)
	}
	t.Cleanup(func() { _ = p.Close() })
	e, err := provider.connect(t.Context())
	if err != nil || e.at.Why != "rootless Podman" || e.version != "Docker/1.2.3" {
		t.Fatalf("found %+v, %v", e, err)
	}
	findings := provider.search(t.Context())
	if len(findings) != 2 || findings[0].Status != statusWarning || findings[1].Status != statusOK {
		t.Errorf("the doctor finds %+v", findings)
	}
}

// certificates makes an authority, and with it a certificate for this machine that serves and asks.
func certificates(t *testing.T) (files map[string][]byte, pair tls.Certificate, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	files = map[string][]byte{
		"ca.pem": certificate, "cert.pem": certificate, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	if pair, err = tls.X509KeyPair(certificate, files["key.pem"]); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return files, pair, pool
}

func TestContextWithTLS(t *testing.T) {
	files, pair, pool := certificates(t)
	server := httptest.NewUnstartedServer(imitation())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := t.TempDir()
	host := "tcp://" + server.Listener.Addr().String()
	writeContext(t, config, "safe", `{"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`, files)
	writeContext(t, config, "strange", `{"Endpoints":{"docker":{"Host":"`+host+`"}}}`, map[string][]byte{"cert.pem": files["cert.pem"], "key.pem": files["key.pem"]})
	for name, good := range map[string]bool{"safe": true, "strange": false} {
		p := &Provider{opts: Options{LookupEnv: environment(map[string]string{"DOCKER_CONFIG": config, "DOCKER_CONTEXT": name})}}
		e, err := p.connect(t.Context())
		if good != (err == nil) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		_ = p.Close()
	}
}

// An address may be as short as the docker command takes it, and a password in one is refused and told nobody.
func TestAddresses(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:1": "tcp://127.0.0.1:1", "tcp://far": "tcp://far:2375", "tcp://": "tcp://localhost:2375", "tcp://[::1]": "tcp://[::1]:2375",
		"ssh://me@far": "ssh://me@far", "unix:///a/b": "unix:///a/b",
	} {
		if got, err := (place{Host: host}).address(); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v", host, got, err)
		}
	}
	if got, err := (place{Host: "tcp://far", TLS: "/certs"}).address(); err != nil || got.String() != "tcp://far:2376" {
		t.Errorf("with TLS it is %v, %v", got, err)
	}
	for _, host := range []string{"ssh://me:s3cret@far", "tcp://me:s3cret@127.0.0.1:1", "ssh://me:s3cret@far:x"} {
		p := &Provider{opts: Options{Host: host, LookupEnv: environment(nil)}}
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

// ssh:// runs ssh, which runs docker at the other end, which passes bytes on.
func TestSSH(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(imitation())
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
	for host, want := range map[string]string{"ssh://me@far:2222": "", "ssh://me@far:2222/own%20socket": "", "ssh://me@elsewhere:2222": "not that way", "ssh://-oProxyCommand=x": "host"} {
		p := &Provider{opts: Options{Host: host, LookupEnv: environment(nil)}}
		e, err := p.connect(t.Context())
		if want == "" && (err != nil || e.version != "Docker/1.2.3") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", host, e, err)
		}
		_ = p.Close()
	}
}

func TestProjectQuota(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
		"23 22 8:2 / /var/lib/docker rw - xfs /dev/sda2 rw,attr2,prjquota\n" +
		"24 22 8:3 / /var/lib/docker/plain rw - xfs /dev/sda3 rw,attr2,noquota\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"/var/lib/docker": true, "/var/lib/docker/a": true, "/var/lib/docker/plain": false, "/var/lib/dockerx": false, "/": false} {
		if got := projectQuota(file, dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if projectQuota(file+"x", "/") {
		t.Error("a file that is not there has quotas")
	}
}

// What is known of an engine is kept, and asked anew when it is another one or long ago.
func TestFactsAreKept(t *testing.T) {
	dir := t.TempDir()
	p := &Provider{opts: Options{CacheDir: dir}}
	e := &engine{at: place{Host: "unix:///a"}, version: "Docker/1"}
	want := facts{Known: true, Version: "Docker/1", Arch: "amd64", CPU: true, Runtimes: []string{"runc"}}
	p.keepFacts(e, want)
	if diff := cmp.Diff(want, p.keptFacts(e)); diff != "" {
		t.Error(diff)
	}
	if got := p.keptFacts(&engine{at: e.at, version: "Docker/2"}); got.Known {
		t.Errorf("of another version: %+v", got)
	}
	if got := p.keptFacts(&engine{at: place{Host: "unix:///b"}, version: "Docker/1"}); got.Known {
		t.Errorf("of another engine: %+v", got)
	}
	old := time.Now().Add(-factsAge - time.Minute)
	if err := os.Chtimes(p.factsFile(e), old, old); err != nil {
		t.Fatal(err)
	}
	if got := p.keptFacts(e); got.Known {
		t.Errorf("from long ago: %+v", got)
	}
}

// Several may ask at the same time; what one of them has read does not change any more. The race detector looks on.
func TestFactsLearnedAtOnce(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41") // and no Server: who stands before an engine may leave it out
		if strings.HasSuffix(r.URL.Path, "/info") {
			both.Done()
			both.Wait()
			_, _ = io.WriteString(w, `{"Architecture": "x86_64", "Runtimes": {"runc": {}}}`)
		}
	}))
	t.Cleanup(server.Close)
	p := &Provider{opts: Options{Host: "tcp://" + server.Listener.Addr().String(), LookupEnv: environment(nil)}}
	t.Cleanup(func() { _ = p.Close() })
	e, err := p.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := p.learn(t.Context(), e); err != nil || e.facts.Arch != "amd64" || e.podman {
				t.Errorf("learned %+v, %v", e.facts, err)
			}
		})
	}
	wg.Wait()
}

func TestConnectGivesUpWithItsCaller(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p := &Provider{opts: Options{Host: "unix://" + listener.Addr().String(), LookupEnv: environment(nil)}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.connect(ctx)
	wantKind(t, err, core.KindCanceled)
}
