package modaltest

import (
	"crypto/rand"
	"math/big"
	"time"
)

// Alphabets of Modal's ids: sandboxes of the first generation have 22 letters of the
// first one, those of the second a ULID.
const (
	v1Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	crockford  = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

func randomText(alphabet string, n int) string {
	text := make([]byte, n)
	for i := range text {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			at = new(big.Int) // crypto/rand never fails on the platforms that Go supports
		}
		text[i] = alphabet[at.Int64()]
	}
	return string(text)
}

// newULID returns an id that sorts by its creation time.
func newULID() string {
	milliseconds := time.Now().UnixMilli()
	stamp := make([]byte, 10)
	for i := len(stamp) - 1; i >= 0; i-- {
		stamp[i] = crockford[milliseconds&31]
		milliseconds >>= 5
	}
	return string(stamp) + randomText(crockford, 16)
}
