package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// cacheLimit is the most cached ids of one sort. At the limit the cache removes all ids of that sort.
const cacheLimit = 1000

// cache stores ids, and facts about them that never change, for later processes. An entry is removed when Modal no
// longer has its id. The file may be removed at any time.
type cache struct {
	path string // "" disables the file

	mu   sync.Mutex
	ids  map[string]map[string]string
	read bool
}

// Sorts of ids in the cache.
const (
	CachedApps    = "apps"    // by name
	CachedImages  = "images"  // by recipe
	CachedNames   = "names"   // sandboxes by name
	CachedTasks   = "tasks"   // by sandbox
	CachedSecrets = "secrets" // by name
	CachedVolumes = "volumes" // by name
	cachedProxies = "proxies" // by name
	CachedEnds    = "ends"    // when a snapshot ends, by its image; not in Modal's list
)

// openCache returns the cache of one account at one server. It does no I/O.
func openCache(dir string, account Account) *cache {
	c := &cache{}
	if dir != "" {
		c.path = filepath.Join(dir, account.Key()+".json")
	}
	return c
}

// Key identifies the account, its server and its environment in file names.
func (a Account) Key() string {
	digest := sha256.Sum256([]byte(a.Server + "\x00" + a.TokenID + "\x00" + a.Environment))
	return hex.EncodeToString(digest[:8])
}

// load reads the file at first use. The caller holds mu.
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

func (c *cache) Get(sort, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	return c.ids[sort][key]
}

// Put keeps an id; "" removes it. A failure to write the file is ignored.
func (c *cache) Put(sort, key, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	if c.ids[sort][key] == id {
		return
	}
	c.read = false
	c.load() // with the entries of other processes
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
