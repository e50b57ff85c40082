package links

import (
	"strings"
	"testing"
	"time"
)

func FuzzLink(f *testing.F) {
	l := &Links{}
	l.Open("http://x")
	good, err := l.Make(Grant{Sandbox: "fake/a", Path: "/f", Expires: time.Now().Add(time.Hour).Unix()})
	if err != nil {
		f.Fatal(err)
	}
	good = strings.TrimPrefix(good, "http://x/files/")
	f.Add("x.y")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, token string) {
		if g, err := l.Check(token, time.Now()); err == nil && token != good {
			t.Errorf("%q is taken as %+v", token, g)
		}
	})
}

func TestLinkTamperingIsRefused(t *testing.T) {
	now := time.Now()
	l := &Links{}
	l.Open("http://x")
	url, err := l.Make(Grant{Sandbox: "fake/a", Path: "/tmp/f", Expires: now.Add(time.Minute).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(url, "http://x/files/")
	if g, err := l.Check(token, now); err != nil || g.Path != "/tmp/f" {
		t.Fatalf("%+v, %v", g, err)
	}
	if _, err := l.Check(token, now.Add(2*time.Minute)); err == nil {
		t.Error("an expired link is taken")
	}
	other := &Links{}
	other.Open("http://x")
	if _, err := other.Check(token, now); err == nil {
		t.Error("a link of another server is taken")
	}
	payload, signature, _ := strings.Cut(token, ".")
	forged, err := l.Make(Grant{Sandbox: "fake/a", Path: "/etc/shadow", Expires: now.Add(time.Minute).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	forgedPayload, _, _ := strings.Cut(strings.TrimPrefix(forged, "http://x/files/"), ".")
	for _, bad := range []string{"", ".", payload, payload + ".", "." + signature, forgedPayload +
		"." + signature, payload + "x." + signature, token + "=", strings.ToUpper(token)} {
		if g, err := l.Check(bad, now); err == nil {
			t.Errorf("%q is taken as %+v", bad, g)
		}
	}
}
