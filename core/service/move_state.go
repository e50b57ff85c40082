package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
	"github.com/seed-0724f904/sb/internal/seal"
)

// moveState is the state of a running move on disk. It is written before the launch of the target.
type moveState struct {
	Owner core.Owner `json:"owner"`
	// Source is provider/id.
	Source string `json:"source"`
	To     string `json:"to"`
	// Name is the target's name, and Begun is before its lease. Both identify the target until its id is known.
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

// remembered reads the state of an earlier move of the same sandbox.
func (m *move) remembered() (moveState, error) {
	if m.stateFile() == "" {
		return moveState{}, nil
	}
	return readMove(m.stateFile())
}

// moveCopy is the suffix of the copy of a state. The copy is replaced after the state is on the disk, so one of them is
// whole.
const moveCopy = ".copy"

// readMove reads one state, or its copy if the file is lost or damaged. Without both it returns the zero state.
func readMove(name string) (moveState, error) {
	state, err := readMoveFile(name, "")
	if err == nil {
		return state, nil
	}
	copied, copyErr := readMoveFile(name, moveCopy)
	switch {
	case copyErr == nil:
		return copied, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(copyErr, fs.ErrNotExist):
		return moveState{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return moveState{}, copyErr
	}
	return moveState{}, err
}

// readMoveFile reads the file of a state, with a suffix. The error is fs.ErrNotExist if there is none, and KindConflict
// if it is damaged.
func readMoveFile(name, suffix string) (moveState, error) {
	var state moveState
	text, err := os.ReadFile(name + suffix)
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
		return moveState{}, core.Errorf(core.KindConflict, "move", "", "%s is damaged: %w", name+suffix, err).
			WithHint("find the unfinished target with \"sb ls\" and terminate it, then remove the file")
	}
	return state, nil
}

// moveFiles lists the files of states. A file may be lost, with its copy there.
func (s *base) moveFiles() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(s.movesDir(), "*.json*"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range found {
		if name = strings.TrimSuffix(name, moveCopy); strings.HasSuffix(name, ".json") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
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
	if err := atomicfile.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := atomicfile.WriteDurable(name, text, 0o600); err != nil {
		return err
	}
	// Read first: the copy stays until the file is known to be whole.
	if _, err := readMoveFile(name, ""); err != nil {
		return err
	}
	return atomicfile.WriteDurable(name+moveCopy, text, 0o600)
}

func (m *move) forget() error {
	if m.stateFile() == "" {
		return nil
	}
	return forgetMove(m.stateFile())
}

// moving finds the source of a move by name, while the move runs or after its process died. The name means the source
// until the move ends it, even if the unfinished target has the name, too, and comes first. KindNotFound: no sandbox
// with this name is being moved.
func (s *base) moving(ctx context.Context, name string) (core.Sandbox, core.Provider, error) {
	none := notFound(name, nil)
	if s.movesDir() == "" {
		return core.Sandbox{}, nil, none
	}
	files, err := s.moveFiles()
	if err != nil {
		return core.Sandbox{}, nil, none // the pattern is constant
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
			continue // it is no longer configured
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

// forgetMove removes the copy first, so that a kill in between leaves no copy without its file.
func forgetMove(name string) error {
	for _, file := range []string{name + moveCopy, name} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
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

// pruneMoves ends the targets of moves whose process has died, for Prune, because their sources still exist. If a
// move's source has ended, the target is the only copy and stays.
func (s *base) pruneMoves(ctx context.Context, opts PruneOptions, report *core.PruneReport) {
	if s.movesDir() == "" {
		return
	}
	names, err := s.moveFiles()
	if err != nil {
		return // the pattern is constant
	}
	for _, name := range names {
		state, err := readMove(name)
		if err != nil {
			report.Failures = append(report.Failures, failure("moves", err))
			continue
		}
		if state.Source == "" || !state.Owner.Gone() { // Source is empty if the file was removed since
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
