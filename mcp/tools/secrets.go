package tools

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
	"github.com/seed-0724f904/sb/core/service"
)

// secrets are those of the sandboxes that clients use, to keep their values out of what the server answers: those
// that it handed over itself, and those that a provider tells of a sandbox that was there before this server.
// It is safe for concurrent use.
type secrets struct {
	mu    sync.RWMutex
	boxes map[string]*boxSecrets // by sandbox id
}

type boxSecrets struct {
	known    []core.Secret
	redactor *redact.Redactor
}

// add remembers the secrets of a sandbox and returns what finds all that are known.
func (s *secrets) add(sandbox string, given []core.Secret) *redact.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes == nil {
		s.boxes = map[string]*boxSecrets{}
	}
	box := s.boxes[sandbox]
	if box == nil {
		box = &boxSecrets{}
		s.boxes[sandbox] = box
	}
	before := len(box.known)
	for _, secret := range given {
		if !slices.Contains(box.known, secret) {
			box.known = append(box.known, secret)
		}
	}
	if len(box.known) > before {
		box.redactor = redact.New(box.known)
	}
	return box.redactor
}

func (s *secrets) forget(sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, sandbox)
}

// Of finds the secrets of a sandbox; nil when it has none.
func (s *secrets) Of(sandbox string) *redact.Redactor {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if box := s.boxes[sandbox]; box != nil {
		return box.redactor
	}
	return nil
}

// Clean replaces the values of the sandbox's secrets.
func (s *secrets) Clean(sandbox, text string) string { return s.Of(sandbox).Clean(text) }

// know asks, once, for the secrets of a sandbox that another process launched.
func (s *secrets) know(ctx context.Context, svc *service.Service, sb core.Sandbox) error {
	s.mu.RLock()
	_, cached := s.boxes[sb.ID]
	s.mu.RUnlock()
	if cached || sb.State != core.StateRunning && sb.State != core.StatePaused {
		return nil
	}
	given, err := svc.Sandboxes.GivenSecrets(ctx, sb.Ref())
	if err != nil && !errors.Is(err, core.KindUnsupported) {
		return err
	}
	s.add(sb.ID, given)
	return nil
}
