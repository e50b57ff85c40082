package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// factsAge bounds the age of the cached facts. Podman takes a third of a second to answer.
const factsAge = 24 * time.Hour

// cacheFile returns the path of the cached facts of this engine.
func (e *Engine) cacheFile(dir string) string {
	sum := sha256.Sum256([]byte(e.At.Host))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
}

// cached returns the cached facts of the same version of the engine, if they are not too old.
func (e *Engine) cached(dir string) Facts {
	if dir == "" {
		return Facts{}
	}
	file := e.cacheFile(dir)
	info, err := os.Stat(file)
	if err != nil || time.Since(info.ModTime()) > factsAge {
		return Facts{}
	}
	var f Facts
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &f) != nil || f.Version != e.Version {
		return Facts{}
	}
	return f
}

// cache writes the facts to the cache. A failure only costs time.
func (e *Engine) cache(dir string, f Facts) {
	if dir == "" {
		return
	}
	file := e.cacheFile(dir)
	text, err := json.Marshal(f)
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	_ = atomicfile.Write(file, text, 0o600)
}
