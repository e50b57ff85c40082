package journal

import (
	"maps"
	"slices"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

// Secrets are the secrets of a sandbox and its commands, in the memory of its supervisor. They are redacted in the
// journal, and frontends get them to redact the sandbox's output. The zero value is ready to use. It is safe for
// concurrent use.
type Secrets struct {
	mu       sync.Mutex
	known    []core.Secret
	redactor *redact.Redactor
}

// Add adds variables and returns a redactor for the values of all variables so far, or nil without any.
func (s *Secrets) Add(values map[string]string) *redact.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.known)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secret := core.Secret{Name: name, Value: core.NewSecretValue(values[name])}
		if !slices.Contains(s.known, secret) {
			s.known = append(s.known, secret)
		}
	}
	if len(s.known) > before {
		s.redactor = redact.New(s.known)
	}
	return s.redactor
}

// All returns all variables so far.
func (s *Secrets) All() []core.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known)
}
