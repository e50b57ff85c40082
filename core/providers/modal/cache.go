package modal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// cacheLimit is how many ids of one sort are kept; then the cache begins anew.
const cacheLimit = 1000

// cache remembers ids, and what never changes of them, over processes. It is never the truth: what it says is dropped when Modal
// answers that there is no such thing, and it may be removed at any time.
type cache struct {
	path string // "" keeps nothing

	mu   sync.Mutex
	ids  map[string]map[string]string
	read bool
}

// Sorts of ids in the cache.
const (
	cachedApps    = "apps"    // by name
	cachedImages  = "images"  // by recipe
	cachedNames   = "names"   // sandboxes by name
	cachedTasks   = "tasks"   // by sandbox
	cachedSecrets = "secrets" // by name
	cachedVolumes = "volumes" // by name
	cachedProxies = "proxies" // by name
	cachedEnds    = "ends"    // when a snapshot ends, by its image; Modal's list does not tell
)

// openCache returns the cache of one account at one server. It does no I/O.
func openCache(dir string, account Account) *cache {
	c := &cache{}
	if dir != "" {
		c.path = filepath.Join(dir, Name, account.key()+".json")
	}
	return c
}

// key names an account at its server and in its environment, in file names.
func (a Account) key() string {
	digest := sha256.Sum256([]byte(a.Server + "\x00" + a.TokenID + "\x00" + a.Environment))
	return hex.EncodeToString(digest[:8])
}

// load reads the file once. The caller holds mu.
func (c *cache) load() {
	if c.read {
		return
	}
	c.read, c.ids = true, map[string]map[string]string{}
	if c.path == "" {
		return
	}
	if text, err := os.ReadFile(c.path); err == nil {
		if json.Unmarshal(text, &c.ids) != nil || c.ids == nil {
			c.ids = map[string]map[string]string{}
		}
	}
}

func (c *cache) get(sort, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	return c.ids[sort][key]
}

// put remembers an id; "" forgets it. A cache that cannot be written is one that forgets.
func (c *cache) put(sort, key, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	if c.ids[sort][key] == id {
		return
	}
	c.read = false
	c.load() // what other processes have learned meanwhile
	if c.ids[sort] == nil || len(c.ids[sort]) >= cacheLimit {
		c.ids[sort] = map[string]string{}
	}
	if id == "" {
		delete(c.ids[sort], key)
	} else {
		c.ids[sort][key] = id
	}
	c.write()
}

// write replaces the file. The caller holds mu.
func (c *cache) write() {
	if c.path == "" {
		return
	}
	text, err := json.Marshal(c.ids)
	if err != nil || os.MkdirAll(filepath.Dir(c.path), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(c.path, text, 0o600) // it is a cache
}
