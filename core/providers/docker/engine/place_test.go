package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// certificates makes an authority and a certificate for this machine as server and client.
func certificates(t *testing.T) (files map[string][]byte, pair tls.Certificate, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().
				Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
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
		"ca.pem": certificate, "cert.pem": certificate,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
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
	server := httptest.NewUnstartedServer(dockertest.Imitation())
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := t.TempDir()
	host := "tcp://" + server.Listener.Addr().String()
	writeContext(t, config, "safe", `{"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`, files)
	writeContext(t, config, "strange", `{"Endpoints":{"docker":{"Host":"`+host+
		`"}}}`, map[string][]byte{"cert.pem": files["cert.pem"], "key.pem": files["key.pem"]})
	for name, good := range map[string]bool{"safe": true, "strange": false} {
		s := Search{LookupEnv: dockertest.Environment(map[string]string{"DOCKER_CONFIG": config, "DOCKER_CONTEXT": name})}
		e, err := s.Connect(t.Context())
		if good != (err == nil) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		if err == nil {
			_ = e.Client.Close()
		}
	}
}

// An address may be as short as the docker command allows.
func TestAddresses(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:1": "tcp://127.0.0.1:1", "tcp://far": "tcp://far:2375", "tcp://": "tcp://localhost:2375",
		"tcp://[::1]":  "tcp://[::1]:2375",
		"ssh://me@far": "ssh://me@far", "unix:///a/b": "unix:///a/b",
	} {
		if got, err := (Place{Host: host}).address(); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v", host, got, err)
		}
	}
	if got, err := (Place{Host: "tcp://far", TLS: "/certs"}).address(); err != nil || got.String() != "tcp://far:2376" {
		t.Errorf("with TLS it is %v, %v", got, err)
	}
}
