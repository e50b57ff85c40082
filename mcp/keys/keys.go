package keys

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Scope is a permission of a key.
type Scope string

const (
	// ScopeAll may call every tool that the server has.
	ScopeAll Scope = "all"
	// ScopeRead may call tools that change nothing.
	ScopeRead Scope = "read"
	// ScopeMetrics may read /metrics, and nothing else.
	ScopeMetrics Scope = "metrics"
)

// Scopes names the scopes.
func Scopes() []string { return []string{string(ScopeAll), string(ScopeRead), string(ScopeMetrics)} }

// Key is one stored key. The secret itself is shown once, when the key is created.
type Key struct {
	ID string `json:"id"`
	// Owner is the owner of the sandboxes that the key can access; several keys may share one.
	Owner string  `json:"owner"`
	Scope []Scope `json:"scope"`
	// Hash is the SHA-256 of the key in hexadecimal. The key has 160 random bits, so a slow hash would protect nothing
	// more.
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	// MaxSandboxes and Rate bound the key's use; 0 means the server's bound.
	MaxSandboxes int     `json:"max_sandboxes,omitempty"`
	Rate         float64 `json:"rate,omitempty"` // requests a second
}

// Usable reports whether the key is neither revoked nor expired.
func (k Key) Usable(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Has reports whether the key has a scope.
func (k Key) Has(scope Scope) bool { return slices.Contains(k.Scope, scope) }

// Store is the file of keys. Its methods are safe for concurrent use, even by several processes.
type Store struct {
	path string

	mu    sync.Mutex
	seen  fileVersion
	known []Key
}

type fileVersion struct {
	size     int64
	modified time.Time
}

// Open returns the store of a file, which need not exist.
func Open(path string) *Store { return &Store{path: path} }

// lockTimeout bounds the wait for another process's change; lockPause is the interval between attempts.
const lockTimeout, lockPause = 5 * time.Second, 10 * time.Millisecond

// prefix begins every key, so that scanners for leaked secrets can find it.
const prefix = "sb_"

// Create makes a key and returns it with the secret that its user needs.
func (s *Store) Create(key Key) (created Key, secret string, err error) {
	if err := core.ValidateName("owner", key.Owner); err != nil {
		return Key{}, "", err
	}
	if len(key.Scope) == 0 {
		key.Scope = []Scope{ScopeAll}
	}
	for _, scope := range key.Scope {
		if !slices.Contains(Scopes(), string(scope)) {
			return Key{}, "", core.Errorf(core.KindUsage, "key", "", "there is no scope %q", scope).
				WithHint("the scopes are %s", strings.Join(Scopes(), ", "))
		}
	}
	key.ID = strings.ToLower(rand.Text()[:8])
	secret = prefix + key.ID + "_" + rand.Text() + rand.Text()[:6]
	key.Hash, key.Created = hash(secret), time.Now().UTC()
	err = s.change(func(known []Key) ([]Key, error) { return append(known, key), nil })
	return key, secret, err
}

// Revoke revokes a key permanently and returns it.
func (s *Store) Revoke(id string) (revoked Key, err error) {
	err = s.change(func(known []Key) ([]Key, error) {
		at := slices.IndexFunc(known, func(k Key) bool { return k.ID == id })
		if at < 0 {
			return nil, core.Errorf(core.KindNotFound, "key", id, "there is no key %q", id).WithHint("sb key ls lists them")
		}
		if known[at].Revoked.IsZero() {
			known[at].Revoked = time.Now().UTC()
		}
		revoked = known[at]
		return known, nil
	})
	return revoked, err
}

// List returns the keys, oldest first, revoked and expired ones included.
func (s *Store) List() ([]Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, err
	}
	return slices.Clone(s.known), nil
}

// Verify returns the usable key of a secret. KindUnauthorized: there is none.
func (s *Store) Verify(secret string) (Key, error) {
	known, err := s.List()
	if err != nil {
		return Key{}, err
	}
	given := hash(secret)
	for _, key := range known {
		if subtle.ConstantTimeCompare([]byte(key.Hash), []byte(given)) == 1 && key.Usable(time.Now()) {
			return key, nil
		}
	}
	return Key{}, core.Errorf(core.KindUnauthorized, "key", "", "the API key is not valid")
}

// Find returns the usable key of an id. KindUnauthorized: there is none.
func (s *Store) Find(id string) (Key, error) {
	known, err := s.List()
	if err != nil {
		return Key{}, err
	}
	for _, key := range known {
		if key.ID == id && key.Usable(time.Now()) {
			return key, nil
		}
	}
	return Key{}, core.Errorf(core.KindUnauthorized, "key", "", "the API key has expired or was revoked")
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// refresh reads the file if it changed since the last read.
func (s *Store) refresh() error {
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.known, s.seen = nil, fileVersion{}
		return nil
	}
	if err != nil {
		return core.Errorf(core.KindUnavailable, "key", s.path, "the keys cannot be read: %w", err)
	}
	if version := (fileVersion{info.Size(), info.ModTime()}); version != s.seen {
		known, err := s.read()
		if err != nil {
			return err
		}
		s.known, s.seen = known, version
	}
	return nil
}

func (s *Store) read() ([]Key, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var known []Key
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "key", s.path, "the keys cannot be read: %w", err)
	}
	slices.SortStableFunc(known, func(a, b Key) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return known, nil
}

// change replaces the keys in the file with the result of do.
func (s *Store) change(do func([]Key) ([]Key, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return core.Errorf(core.KindUnavailable, "key", s.path, "%w", err)
	}
	lock := flock.New(s.path + ".lock")
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, lockPause); errors.Is(err, context.DeadlineExceeded) {
		return core.Errorf(core.KindTimeout, "key", s.path, "another process has locked the keys")
	} else if err != nil {
		return core.Errorf(core.KindUnavailable, "key", s.path, "the keys cannot be locked: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	known, err := s.read()
	if err != nil {
		return err
	}
	if known, err = do(known); err != nil {
		return err
	}
	data, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteDurable(s.path, append(data, '\n'), 0o600); err != nil {
		return core.Errorf(core.KindUnavailable, "key", s.path, "the keys cannot be written: %w", err)
	}
	return nil
}
