package links

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Links makes and checks links to files in sandboxes. A link lets its holder read or write one file until it expires.
// A secret of this process signs the links, so they end with the process. The zero value makes no links until Open.
type Links struct{ at atomic.Pointer[linkBase] }

// linkBase has the base URL of the links and the secret that signs them.
type linkBase struct {
	url    string
	secret []byte
}

// Open enables links to a server over HTTP; url has no path.
func (l *Links) Open(url string) { l.at.Store(&linkBase{url: url, secret: []byte(rand.Text())}) }

// Grant describes the permission of a link.
type Grant struct {
	Sandbox string `json:"s"` // provider/id
	Path    string `json:"p"`
	Write   bool   `json:"w,omitempty"`
	Owner   string `json:"o"`
	// Isolated and Key are the caller's. Revoking the key invalidates its links.
	Isolated bool   `json:"i,omitempty"`
	Key      string `json:"k,omitempty"`
	Expires  int64  `json:"e"` // Unix seconds
}

func (l *linkBase) sign(payload []byte) []byte {
	mac := hmac.New(sha256.New, l.secret)
	mac.Write(payload)
	return mac.Sum(nil)
}

// Make signs a link.
func (l *Links) Make(g Grant) (string, error) {
	base := l.at.Load()
	if base == nil {
		return "", core.Errorf(core.KindUnsupported, "link", "", "this server has no links: it does not serve HTTP").
			WithHint("use file_read, push or pull")
	}
	payload, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return base.url + "/files/" + encode(payload) + "." + encode(base.sign(payload)), nil
}

// Check returns the grant of a token. Every invalid token gives the same error.
func (l *Links) Check(token string, now time.Time) (Grant, error) {
	refused := core.Errorf(core.KindNotFound, "link", "", "this link is invalid or has expired")
	base := l.at.Load()
	if base == nil {
		return Grant{}, refused
	}
	encoded, signature, _ := strings.Cut(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return Grant{}, refused
	}
	mac, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(mac, base.sign(payload)) {
		return Grant{}, refused
	}
	var g Grant
	if err := json.Unmarshal(payload, &g); err != nil || now.Unix() >= g.Expires {
		return Grant{}, refused
	}
	return g, nil
}
