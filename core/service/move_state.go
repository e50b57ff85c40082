package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
	"github.com/seed-0724f904/sb/internal/seal"
)

// moveState is what is known of a move on disk while it is under way. It is written before the target is launched.
type moveState struct {
	Owner core.Owner `json:"owner"`
	// Source is provider/id.
	Source string `json:"source"`
	To     string `json:"to"`
	// Name is the target's, and Begun is before its lease: it is known by them until its id is.
	Name   string    `json:"name,omitempty"`
	Begun  time.Time `json:"begun,omitzero"`
	Target string    `json:"target,omitempty"`
}

// movesDir is where the states of moves are; "" is nowhere.
func (s *base) movesDir() string {
	if s.audit == nil {
		return ""
	}
	return filepath.Join(s.audit.dir, "moves")
}

func (m *move) stateFile() string {
	if m.s.movesDir() == "" {
		return ""
	}
	return filepath.Join(m.s.movesDir(), stateName(m.source.Provider, m.source.ID))
}

// remembered reads what an earlier move of the same sandbox left.
func (m *move) remembered() (moveState, error) {
	if m.stateFile() == "" {
		return moveState{}, nil
	}
	return readMove(m.stateFile())
}

// readMove reads one state; of a file that is not there it is empty.
func readMove(name string) (moveState, error) {
	var state moveState
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, err
	}
	err = seal.Unmarshal(text, &state)
	if provider, id, _ := strings.Cut(state.Source, "/"); err == nil && (id == "" ||
		name != filepath.Join(filepath.Dir(name), stateName(provider, id)) ||
		state.To == "" || state.Name == "" && state.Target == "") {
		err = errors.New("it does not describe the move of its name")
	}
	if err != nil {
		return moveState{}, core.Errorf(core.KindConflict, "move", "", "%s is damaged: %w", name, err).
			WithHint("find the unfinished target with \"sb ls\" and terminate it, then remove the file")
	}
	return state, nil
}

// stateName is the name of the file with the state of a sandbox's move.
func stateName(provider, id string) string { return provider + "-" + id + ".json" }

func (m *move) remember(state moveState) error {
	name := m.stateFile()
	if name == "" {
		return nil
	}
	text, err := seal.Marshal(state)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteDurable(name, text, 0o600)
}

func (m *move) forget() error {
	if m.stateFile() == "" {
		return nil
	}
	return forgetMove(m.stateFile())
}

// moving finds a sandbox by its name while it is moved, or was when the mover died: until the move has ended it, the
// name is its own, although the half-made target has it, too, and may come first. KindNotFound: no such sandbox is
// moved.
func (s *base) moving(ctx context.Context, name string) (core.Sandbox, core.Provider, error) {
	none := notFound(name, nil)
	if s.movesDir() == "" {
		return core.Sandbox{}, nil, none
	}
	files, err := filepath.Glob(filepath.Join(s.movesDir(), "*.json"))
	if err != nil {
		return core.Sandbox{}, nil, none // the pattern is ours
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	for _, file := range files {
		state, err := readMove(file)
		if err != nil || state.Name != name {
			continue
		}
		provider, id, _ := strings.Cut(state.Source, "/")
		lazy, err := s.provider(provider)
		if err != nil {
			continue // it is not configured any more
		}
		source, at, err := s.resolveID(ctx, lazy, id)
		if errors.Is(err, core.KindNotFound) || err == nil && (source.ID != id || source.Name != name ||
			!source.State.Live()) {
			continue
		}
		return source, at, err
	}
	return core.Sandbox{}, nil, none
}

func forgetMove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// moveTarget finds the running sandbox that a move has made, if it has.
func (s *base) moveTarget(ctx context.Context, state moveState) (core.Sandbox, bool, error) {
	if state.To == "" {
		return core.Sandbox{}, false, nil
	}
	lazy, err := s.provider(state.To)
	if err != nil {
		return core.Sandbox{}, false, err
	}
	p, err := lazy.open()
	if err != nil {
		return core.Sandbox{}, false, err
	}
	var found core.Sandbox
	if state.Target != "" {
		found, err = p.Get(ctx, state.Target)
	} else {
		found, _, err = s.findName(ctx, p, state.Name)
	}
	if err != nil && !errors.Is(err, core.KindNotFound) {
		return core.Sandbox{}, false, err
	}
	ours := state.Target != "" || found.Lease.Owner.Process() == state.Owner.Process() &&
		!found.Lease.Created.Before(state.Begun)
	return found, err == nil && ours && found.State == core.StateRunning, nil
}

// pruneMoves ends the targets of moves whose process has died, for Prune: the sources are there still. Of a move whose
// source is gone the target is all there is, and stays.
func (s *base) pruneMoves(ctx context.Context, opts PruneOptions, report *core.PruneReport) {
	if s.movesDir() == "" {
		return
	}
	names, err := filepath.Glob(filepath.Join(s.movesDir(), "*.json"))
	if err != nil {
		return // the pattern is ours
	}
	for _, name := range names {
		state, err := readMove(name)
		if err != nil {
			report.Failures = append(report.Failures, failure("moves", err))
			continue
		}
		if state.Source == "" || !state.Owner.Gone() { // Source is empty if the file is gone again
			continue
		}
		if err := s.pruneMove(ctx, opts, name, state, report); err != nil {
			report.Failures = append(report.Failures, failure(state.To, err))
		}
	}
}

func (s *base) pruneMove(
	ctx context.Context, opts PruneOptions, name string, state moveState, report *core.PruneReport,
) error {
	provider, id, _ := strings.Cut(state.Source, "/")
	lazy, err := s.provider(provider)
	if err != nil {
		return err
	}
	from, err := lazy.open()
	if err != nil {
		return err
	}
	source, err := from.Get(ctx, id)
	if err != nil && !errors.Is(err, core.KindNotFound) {
		return err
	}
	if err == nil && !s.sees(source) {
		return nil
	}
	if err == nil && source.State.Live() {
		target, begun, err := s.moveTarget(ctx, state)
		if err != nil {
			return err
		}
		if begun {
			if !opts.DryRun {
				if err := (Sandboxes{s}).Terminate(ctx, target.Ref()); err != nil && !errors.Is(err, core.KindNotFound) {
					return err
				}
			}
			report.Sandboxes = append(report.Sandboxes, target)
		}
	}
	if opts.DryRun {
		return nil
	}
	return forgetMove(name)
}
