package keys_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/keys"
)

func TestKeyLifecycle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "keys.json")
	store := keys.Open(path)
	if all, err := store.List(); err != nil || len(all) != 0 {
		t.Fatalf("before the first: %v, %v", all, err)
	}
	key, secret, err := store.Create(keys.Key{Owner: "alice", MaxSandboxes: 3})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, "sb_"+key.ID+"_") || len(secret) < 40 || !key.Has(keys.ScopeAll) {
		t.Errorf("%+v with secret %q", key, secret)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), secret) {
		t.Errorf("the file holds the key itself: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	other := keys.Open(path) // another process
	if found, err := other.Verify(secret); err != nil || found.Owner != "alice" || found.MaxSandboxes != 3 {
		t.Errorf("%+v, %v", found, err)
	}
	for _, wrong := range []string{"", "sb_", secret + "x", secret[:len(secret)-1], key.Hash} {
		if found, err := other.Verify(wrong); !errors.Is(err, core.KindUnauthorized) {
			t.Errorf("%q is %+v, %v", wrong, found, err)
		}
	}
	if _, err := store.Revoke("absent"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("revoking an unknown key: %v", err)
	}
	if _, err := store.Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := other.Verify(secret); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a revoked key is %+v, %v", found, err)
	}
	if _, err := other.Find(key.ID); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a revoked key is found: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	store := keys.Open(filepath.Join(t.TempDir(), "keys.json"))
	_, secret, err := store.Create(keys.Key{Owner: "bob", Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Verify(secret); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("an expired key is taken: %v", err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	store := keys.Open(filepath.Join(t.TempDir(), "keys.json"))
	for _, bad := range []keys.Key{{}, {Owner: "../x"}, {Owner: "a", Scope: []keys.Scope{"root"}}} {
		if _, _, err := store.Create(bad); !errors.Is(err, core.KindUsage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestProcessesDoNotLoseEachOthersKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := keys.Open(path).Create(keys.Key{Owner: "all"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := keys.Open(path).List(); err != nil || len(all) != 8 {
		t.Errorf("%d keys, %v", len(all), err)
	}
}

func TestDamagedFileGrantsNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Open(path).Verify("x"); !errors.Is(err, core.KindUnavailable) {
		t.Errorf("got %v", err)
	}
}
