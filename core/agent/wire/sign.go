package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"

	"github.com/seed-0724f904/sb/core"
)

// NewKey returns a key for one box. A caller with the key may call the box. In the container, only the box's memory has
// it.
func NewKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key)
	return key
}

// signed is a request on the wire. Root in the container may control the process that carries it, so the request does
// not contain the key. That process can repeat a request but not create one.
type signed struct {
	Body []byte `json:"body"`
	MAC  []byte `json:"mac"`
}

// Sign returns the payload of a FrameRequest of this Version.
func (r Request) Sign(key []byte) ([]byte, error) {
	r.Version = Version
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(signed{Body: body, MAC: mac(key, body)})
}

// Verify reads the payload of a FrameRequest. Errors are core.KindUnauthorized, KindUsage, or KindUnavailable for a
// caller of another version.
func Verify(key, payload []byte) (Request, error) {
	var s signed
	var r Request
	if err := json.Unmarshal(payload, &s); err != nil {
		return r, core.Errorf(core.KindUsage, "call", "", "the request is damaged: %w", err)
	}
	if !hmac.Equal(s.MAC, mac(key, s.Body)) {
		return r, core.Errorf(core.KindUnauthorized, "call", "", "the request is not signed by this sandbox's owner")
	}
	// A request of another version may have other types.
	var of struct {
		Version int `json:"version"`
	}
	_ = json.Unmarshal(s.Body, &of)
	if err := CheckVersion(of.Version, Version); err != nil {
		return r, err
	}
	if err := json.Unmarshal(s.Body, &r); err != nil {
		return r, core.Errorf(core.KindUsage, "call", "", "the request is damaged: %w", err)
	}
	return r, nil
}

func mac(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(body)
	return h.Sum(nil)
}
