package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// ownerFile is where a state directory keeps the random part of its owner's id.
const ownerFile = "owner"

// identity identifies this state directory and user as an owner of sandboxes. Without dir the owner is this process
// alone.
type identity struct {
	dir  string
	once sync.Once
	id   string
	err  error
}

// get returns the owner's id. All processes of one user with one state directory have the same id. The first call makes
// it.
func (i *identity) get() (string, error) {
	i.once.Do(func() {
		seed := rand.Text()
		if i.dir != "" {
			if seed, i.err = ownerSeed(i.dir); i.err != nil {
				return
			}
		}
		sum := sha256.Sum256([]byte(seed + " " + strconv.Itoa(os.Getuid())))
		i.id = hex.EncodeToString(sum[:8])
	})
	return i.id, i.err
}

// ownerSeed reads the random text of a state directory, or creates it. If several processes create it at once, the
// first one wins.
func ownerSeed(dir string) (string, error) {
	file := filepath.Join(dir, ownerFile)
	seed, err := readOwner(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return seed, err
	}
	if err := makeOwner(dir, file); err != nil {
		return "", stateError(dir, err)
	}
	return readOwner(file)
}

func makeOwner(dir, file string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := atomicfile.CreateDurable(file, []byte(rand.Text()+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// readOwner returns fs.ErrNotExist if there is no file, or a *core.Error that names it.
func readOwner(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err != nil {
		return "", stateError(filepath.Dir(file), err)
	}
	seed := strings.TrimSpace(string(text))
	if len(seed) < len(rand.Text()) {
		return "", core.Errorf(core.KindUnavailable, "owner", file, "%s is damaged", file).
			WithHint("restore the file, or remove it; sandboxes launched before then need --all-owners")
	}
	return seed, nil
}

// stateError classifies a failure to read or write the state directory.
func stateError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return core.Errorf(core.KindExhausted, "owner", dir, "the disk is full: %w", err).
			WithHint("free some space, then try again")
	}
	return core.Errorf(core.KindUnavailable, "owner", dir, "the state directory cannot be used: %w", err).
		WithHint("set XDG_STATE_HOME to a directory that you can write")
}

// asOwner returns this process as the owner of its sandboxes.
func (s *base) asOwner() (core.Owner, error) {
	id, err := s.identity.get()
	owner := s.owner
	owner.ID = id
	return owner, err
}

// Mine splits sandboxes into those of this user and state directory and those of others, for operations on all of them.
// At a provider that is not shared, all belong to this user. At a shared one, a sandbox without an owner counts as
// another's.
func (s Sandboxes) Mine(boxes []core.Sandbox) (mine, others []core.Sandbox, err error) {
	shared := map[string]bool{}
	mine = []core.Sandbox{}
	for _, sb := range boxes {
		at, known := shared[sb.Provider]
		if !known {
			caps, err := Providers(s).Capabilities(sb.Provider)
			at = err != nil || caps.Shared
			shared[sb.Provider] = at
		}
		if at {
			id, err := s.identity.get()
			if err != nil {
				return nil, nil, err
			}
			if sb.Lease.Owner.ID != id {
				others = append(others, sb)
				continue
			}
		}
		mine = append(mine, sb)
	}
	return mine, others, nil
}
