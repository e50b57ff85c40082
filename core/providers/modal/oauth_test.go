//go:build linux

package modal_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// An integration's credentials work like a token, both with a client secret and with a signing key.
func TestOAuth(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	newRig(t, func(o *modaltest.Options) {
		o.Tokens = map[string]string{"oc-client": "planted-client-secret"}
		o.AssertionKeys = map[string]*rsa.PublicKey{"oc-client": &key.PublicKey}
	})
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	forged, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(forged)})
	for _, name := range []string{"MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"} {
		t.Setenv(name, "")
	}
	t.Setenv("MODAL_OAUTH_REFRESH_TOKEN", "planted-refresh-token")
	for _, test := range []struct {
		name                string
		client, secret, key string
		want                core.Kind
	}{
		{"a client secret", "oc-client", "planted-client-secret", "", 0},
		{"a key", "oc-client", "", string(text), 0},
		{"a forged key", "oc-client", "", string(other), core.KindUnauthorized},
		{"a wrong secret", "oc-client", "wrong", "", core.KindUnauthorized},
		{"another client", "oc-other", "", string(text), core.KindUnauthorized},
		{"neither", "oc-client", "", "", core.KindUnauthorized},
		{"both", "oc-client", "planted-client-secret", string(text), core.KindUnauthorized},
		{"no key", "oc-client", "", "no key", core.KindUsage},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("MODAL_OAUTH_CLIENT_ID", test.client)
			t.Setenv("MODAL_OAUTH_CLIENT_SECRET", test.secret)
			t.Setenv("MODAL_OAUTH_JWT_KEY", test.key)
			p := modal.New(modal.Options{})
			defer func() { _ = p.Close() }()
			_, err := p.Launch(t.Context(), spec(), lease(), nil)
			if test.want == 0 && err != nil || test.want != 0 && (!errors.Is(err, test.want)) {
				t.Errorf("launching: %v", err)
			}
			if findings := p.Diagnose(t.Context()); test.want == 0 && (len(findings) != 2 ||
				findings[0].Detail != "OAuth client oc-client" || findings[1].Status != "ok") {
				t.Errorf("the doctor says %+v", findings)
			}
		})
	}
	t.Setenv("MODAL_OAUTH_CLIENT_ID", "oc-client")
	t.Setenv("MODAL_OAUTH_CLIENT_SECRET", "planted-client-secret")
	t.Setenv("MODAL_TOKEN_ID", tokenID)
	t.Setenv("MODAL_TOKEN_SECRET", tokenSecret)
	both := modal.New(modal.Options{})
	defer func() { _ = both.Close() }()
	if err := both.Check(t.Context()); !errors.Is(err, core.KindUsage) || core.HintOf(err) == "" {
		t.Errorf("a token and OAuth: %v", err)
	}
}
