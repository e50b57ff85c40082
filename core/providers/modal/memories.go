package modal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// memories stores the checkpoints that were made on this machine with one account. Each has a file of its name.
type memories struct{ dir string }

func (p *Provider) memories(c *client.Client) memories {
	if p.opts.StateDir == "" {
		return memories{}
	}
	return memories{filepath.Join(p.opts.StateDir, "modal-checkpoints", c.Account.Key())}
}

func (m memories) file(name string) string { return filepath.Join(m.dir, name+".json") }

// errNoState is the error of a provider without a state directory.
var errNoState = core.Errorf(
	core.KindUnavailable, "modal.checkpoint", "", "no state directory is set for the names of checkpoints",
)

// add stores a checkpoint. fs.ErrExist: the name is taken.
func (m memories) add(made core.Checkpoint) error {
	if m.dir == "" {
		return errNoState
	}
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	return atomicfile.CreateDurable(m.file(made.Name), text, 0o600)
}

// read returns the checkpoint of a name.
func (m memories) read(name string) (core.Checkpoint, error) {
	var kept core.Checkpoint
	if m.dir == "" || core.ValidateName("checkpoint", name) != nil {
		return kept, fs.ErrNotExist
	}
	text, err := os.ReadFile(m.file(name))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	return kept, err
}

// list returns all unexpired checkpoints and removes the others.
func (m memories) list(now time.Time) ([]core.Checkpoint, error) {
	if m.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []core.Checkpoint
	for _, entry := range entries {
		name, ours := strings.CutSuffix(entry.Name(), ".json")
		if !ours {
			continue
		}
		kept, err := m.read(name)
		switch {
		case err != nil: // damaged, or just removed
		case now.After(kept.Expires):
			if err := m.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		default:
			list = append(list, kept)
		}
	}
	return list, nil
}

// remove removes a checkpoint.
func (m memories) remove(name string) error {
	if m.dir == "" || core.ValidateName("checkpoint", name) != nil {
		return fs.ErrNotExist
	}
	return os.Remove(m.file(name))
}
