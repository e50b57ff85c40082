//go:build linux

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

const (
	// kernelTasks are the threads of those, and tasksPerProcess those that stand for one process inside.
	kernelTasks, tasksPerProcess = 512, 4
)

// group makes a sandbox's control group, where there can be one: else its limits are those that the
// sandbox's kernel and its supervisor enforce. Where it is stands on disk before it exists.
func (p *Provider) group(id string, spec core.Spec) (*cgroup.Group, error) {
	if err := p.removeGroup(id); err != nil {
		return nil, err
	}
	limits := groupLimits(spec)
	if limits == (cgroup.Limits{}) {
		return nil, nil //nolint:nilnil // no group is an answer
	}
	group, err := cgroup.Find(p.store.GroupName(id))
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // doctor tells
	}
	if err := store.WriteJSON(filepath.Join(p.store.Dir(id), store.GroupFile), group, false); err != nil {
		return nil, err
	}
	if err := group.Create(limits); err != nil {
		return nil, nil //nolint:nilerr,nilnil // doctor tells
	}
	return group, nil
}

// groupLimits are the limits of a sandbox's control group.
func groupLimits(spec core.Spec) cgroup.Limits {
	limits := cgroup.Limits{CPU: spec.CPU}
	if spec.Memory > 0 {
		limits.Memory = int64(spec.Memory) + socket.KernelMemory
	}
	if spec.Processes > 0 {
		limits.Tasks = kernelTasks + tasksPerProcess*spec.Processes
	}
	return limits
}

// held returns the controllers that bound a sandbox: of a running one by what its control group says, else by
// trying to make one. An error says why there can be none.
func (p *Provider) held(id string, spec core.Spec) ([]string, error) {
	limits := groupLimits(spec)
	if id == "" {
		if limits == (cgroup.Limits{}) {
			return nil, nil
		}
		return cgroup.Try(p.store.GroupName(fmt.Sprintf("try-%d", os.Getpid())), limits)
	}
	group, err := p.groupOf(id)
	if err != nil {
		return nil, err
	}
	if len(group.Dirs) == 0 {
		return nil, errors.New("the sandbox has no control group")
	}
	// Where it is was written before it was made: it may never have come to be.
	if _, err := os.Stat(group.Dirs[0]); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the sandbox has no control group")
	}
	return group.Held(limits)
}

// removeGroup removes the control group of a sandbox that does not run. No supervisor does that: without capabilities
// it may not.
func (p *Provider) removeGroup(id string) error {
	group, err := p.groupOf(id)
	if err != nil {
		return err
	}
	return group.Remove()
}

// groupAge is how old an empty control group without a sandbox is at least. A launch makes the group a moment before
// the first process enters it.
const groupAge = time.Minute

// abandonedGroups finds the control groups of this state directory whose sandbox has no record any more, and those of a
// check that was killed. With processes in it a group is none of them.
func (p *Provider) abandonedGroups() []string {
	prefix := p.store.GroupName("")
	return slices.DeleteFunc(cgroup.Empty(prefix, groupAge), func(dir string) bool {
		_, err := os.Lstat(p.store.Dir(strings.TrimPrefix(filepath.Base(dir), prefix)))
		return err == nil
	})
}
