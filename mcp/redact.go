package mcp

import (
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// redactor keeps the values of secrets that this server handed to sandboxes out of what it answers.
// It is safe for concurrent use.
type redactor struct {
	mu     sync.RWMutex
	values map[string][]string // by sandbox id: value, replacement, …
}

// shortestSecret is the length below which a value is no secret but a word of its own.
const shortestSecret = 4

func (r *redactor) add(sandbox string, secrets []core.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[string][]string{}
	}
	for _, secret := range secrets {
		if value := secret.Value.Reveal(); len(value) >= shortestSecret {
			r.values[sandbox] = append(r.values[sandbox], value, secret.Value.String())
		}
	}
}

func (r *redactor) forget(sandbox string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.values, sandbox)
}

// clean replaces the values of the sandbox's secrets.
func (r *redactor) clean(sandbox, text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if pairs := r.values[sandbox]; len(pairs) > 0 {
		return strings.NewReplacer(pairs...).Replace(text)
	}
	return text
}
