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

// secrets has the secrets of sandboxes, to keep their values out of the server's replies. It has those that the server
// passed itself, and those that a provider reports for older sandboxes. It is safe for concurrent use.
type secrets struct {
	mu    sync.RWMutex
	boxes map[string]*boxSecrets // by sandbox id
}

type boxSecrets struct {
	known    []core.Secret
	redactor *redact.Redactor
}

// add stores secrets of a sandbox and returns the redactor of all its known secrets.
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

// Of returns the redactor of a sandbox; nil if it has no secrets.
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

// know requests, once, the secrets of a sandbox that another process launched.
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
