package auth

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/keys"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// The local key does not work beyond loopback. A server without keys listens on loopback only.
func TestLocalKeyBeyondLoopback(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "mcp.key"), filepath.Join(dir, "keys.json")
	outside := &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	inside := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	for _, test := range []struct {
		name    string
		addr    net.Addr
		options setup.HTTP
		key     bool
		want    core.Kind // KindInternal: it listens
	}{
		{"loopback", inside, setup.HTTP{}, false, core.KindInternal},
		{"loopback without keys", inside, setup.HTTP{NoAuth: true}, false, core.KindInternal},
		{"all interfaces", outside, setup.HTTP{}, false, core.KindUnauthorized},
		{"all interfaces without keys", outside, setup.HTTP{NoAuth: true}, false, core.KindUnauthorized},
		{"all interfaces with a key", outside, setup.HTTP{}, true, core.KindInternal},
		{"no keys beside a key", inside, setup.HTTP{NoAuth: true}, true, core.KindUsage},
	} {
		test.options.LocalKeyFile, test.options.KeysFile = file, filepath.Join(t.TempDir(), "none")
		if test.key {
			test.options.KeysFile = store
			if _, _, err := keys.Open(store).Create(keys.Key{Owner: "alice"}); err != nil {
				t.Fatal(err)
			}
		}
		a, err := New(test.options, "http://sb.example", test.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Enough(test.addr); test.want == core.KindInternal && err != nil || test.want != core.KindInternal &&
			(err == nil || core.KindOf(err) != test.want || core.HintOf(err) == "") {
			t.Errorf("%s: %v", test.name, err)
		}
		local, err := keys.OpenLocal(file)
		if err != nil {
			t.Fatal(err)
		}
		if test.addr == net.Addr(outside) && a.local.Matches(local.Reveal()) {
			t.Errorf("%s: the local key is taken", test.name)
		}
	}
}
