//go:build linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// preparing is the suffix of a ticket whose spare is not ready yet.
const preparing = ".new"

// Spare is a sandbox that was started before a launch needs it. It has a directory and a lock, but neither a lease nor
// a name.
type Spare struct {
	ID string
	// Ready means that a launch can claim it.
	Ready bool
}

// Ticket returns the path of a spare's ticket. The process that removes the ticket owns the spare.
func (s *Store) Ticket(id string) string { return filepath.Join(s.state, "spares", id) }

// OfferSpare makes the ticket of a spare that is being prepared, unless there are limit spares already. shape describes
// the launches that may claim the spare. The caller holds the spare's lock.
func (s *Store) OfferSpare(id, shape string, limit int) (offered bool, err error) {
	dir := filepath.Dir(s.Ticket(id))
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	err = s.withNames(func(string) error {
		spares, err := s.Spares()
		if err != nil || len(spares) >= limit {
			return err
		}
		offered = true
		return os.WriteFile(s.Ticket(id)+preparing, []byte(shape), 0o600)
	})
	return offered && err == nil, err
}

// ReadySpare makes a prepared spare available to claims.
func (s *Store) ReadySpare(id string) error {
	ticket := s.Ticket(id)
	return os.Rename(ticket+preparing, ticket)
}

// WithdrawSpare ends the offer of a spare. claimed reports that a launch has claimed the spare before.
func (s *Store) WithdrawSpare(id string) (claimed bool, err error) {
	err = os.Remove(s.Ticket(id) + preparing)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(s.Ticket(id))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// TakeSpare claims a spare of a shape and returns its id. It returns "" if there is none. Of concurrent claims only one
// gets a spare. The spare's supervisor may have ended.
func (s *Store) TakeSpare(shape string) (id string, err error) {
	spares, err := s.Spares()
	if err != nil {
		return "", err
	}
	for _, spare := range spares {
		ticket := s.Ticket(spare.ID)
		if !spare.Ready {
			continue
		}
		if text, err := os.ReadFile(ticket); err == nil && string(text) == shape && os.Remove(ticket) == nil {
			return spare.ID, nil
		}
	}
	return "", nil
}

// Spares returns the spares that no launch has claimed. It removes the tickets of spares whose supervisor has ended.
func (s *Store) Spares() ([]Spare, error) {
	dir := filepath.Dir(s.Ticket("x"))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var spares []Spare
	for _, e := range entries {
		id, isNew := strings.CutSuffix(e.Name(), preparing)
		if !ValidID(id) {
			continue
		}
		if !s.Locked(id) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		spares = append(spares, Spare{ID: id, Ready: !isNew})
	}
	return spares, nil
}
