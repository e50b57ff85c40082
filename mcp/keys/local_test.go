package keys_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/keys"
)

func TestLocalKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "mcp.key")
	var all sync.Map
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			local, err := keys.OpenLocal(path)
			if err != nil {
				t.Error(err)
			}
			all.Store(local.Reveal(), true)
		})
	}
	wg.Wait()
	local, err := keys.OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	for secret := range all.Range {
		if !local.Matches(secret.(string)) { //nolint:forcetypeassert // stored above
			t.Error("two processes got different keys")
		}
	}
	for _, wrong := range []string{"", "sb_local_", local.Reveal()[:20], local.Reveal() + "x"} {
		if local.Matches(wrong) || (keys.Local{}).Matches(wrong) {
			t.Errorf("%q is taken", wrong)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the key there is %v, %v", left, err)
	}
}

// OpenLocal refuses a key that other users could read or have written.
func TestForeignLocalKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.key")
	if _, err := keys.OpenLocal(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenLocal(path); !errors.Is(err, core.KindUnauthorized) || core.HintOf(err) == "" {
		t.Errorf("readable by all: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "short": "sb_local_x\n", "other": "password-password-password-password\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.OpenLocal(path); !errors.Is(err, core.KindUnavailable) || core.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
