package keys

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// localPrefix begins the local key. It cannot be a key's id, which has eight characters.
const localPrefix = prefix + "local_"

// maxLocal bounds the file of the local key, in bytes.
const maxLocal = 1 << 10

// Local is the key of the user's own programs for the user's own server on this machine. Unlike a key of a Store it has
// no owner: it gives access to everything that the user has. Only the user can read its file. The zero value matches
// nothing.
type Local struct{ secret string }

// OpenLocal reads the local key, or makes it when path does not exist. A file that others may read is an error of
// KindUnauthorized, and stays as it is. Several processes may call it at the same time and get the same key.
func OpenLocal(path string) (Local, error) {
	for {
		l, err := readLocal(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
		if err := makeLocal(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return Local{}, core.Errorf(core.KindUnavailable, "key", path, "the local key cannot be written: %w", err)
		}
	}
}

// Reveal returns the key as clients send it.
func (l Local) Reveal() string { return l.secret }

// Matches reports whether secret is the key.
func (l Local) Matches(secret string) bool {
	return l.secret != "" && subtle.ConstantTimeCompare([]byte(l.secret), []byte(secret)) == 1
}

func readLocal(path string) (Local, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Local{}, err
	}
	if err != nil {
		return Local{}, core.Errorf(core.KindUnavailable, "key", path, "the local key cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Local{}, core.Errorf(core.KindUnavailable, "key", path, "the local key cannot be read: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return Local{}, core.Errorf(
			core.KindUnauthorized, "key", path, "other users may have read or replaced the local key (%s)", mode,
		).
			WithHint("remove %s: the next start makes a new key", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLocal))
	secret := strings.TrimSpace(string(data))
	if err != nil || len(secret) < len(localPrefix)+26 || !strings.HasPrefix(secret, localPrefix) {
		return Local{}, core.Errorf(core.KindUnavailable, "key", path, "the file contains no local key").
			WithHint("remove %s: the next start makes a new key", path)
	}
	return Local{secret}, nil
}

// makeLocal writes a new key. fs.ErrExist: another process wrote it first.
func makeLocal(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.CreateDurable(path, []byte(localPrefix+rand.Text()+"\n"), 0o600)
}
