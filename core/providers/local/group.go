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
	// kernelTasks are the threads of gVisor and the supervisor. tasksPerProcess are the threads for one process inside.
	kernelTasks, tasksPerProcess = 512, 4
)

// group makes a sandbox's control group. Without one, only the sandbox's kernel and its supervisor enforce limits, and
// group returns nil. The group's location is on disk before the group exists.
func (p *Provider) group(id string, spec core.Spec) (*cgroup.Group, error) {
	if err := p.removeGroup(id); err != nil {
		return nil, err
	}
	limits := groupLimits(spec)
	if limits == (cgroup.Limits{}) {
		return nil, nil //nolint:nilnil // no group is a valid result
	}
	group, err := cgroup.Find(p.store.GroupName(id))
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // sb doctor reports it
	}
	if err := store.WriteJSON(filepath.Join(p.store.Dir(id), store.GroupFile), group, false); err != nil {
		return nil, err
	}
	if err := group.Create(limits); err != nil {
		return nil, nil //nolint:nilerr,nilnil // sb doctor reports it
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

// held returns the controllers that limit a sandbox. For a running sandbox it reads the control group. Otherwise it
// makes a trial group. An error is the reason why there can be no group.
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
	// The location is written before the group is made, so the group may not exist.
	if _, err := os.Stat(group.Dirs[0]); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the sandbox has no control group")
	}
	return group.Held(limits)
}

// removeGroup removes the control group of a sandbox that does not run. A supervisor cannot do that: it has no
// capabilities.
func (p *Provider) removeGroup(id string) error {
	group, err := p.groupOf(id)
	if err != nil {
		return err
	}
	return group.Remove()
}

// groupAge is the minimum age of an abandoned control group. A launch makes the group a moment before the first process
// enters it.
const groupAge = time.Minute

// abandonedGroups returns the empty control groups of this state directory whose sandbox has no record. Killed checks
// leave such groups, too.
func (p *Provider) abandonedGroups() []string {
	prefix := p.store.GroupName("")
	return slices.DeleteFunc(cgroup.Empty(prefix, groupAge), func(dir string) bool {
		_, err := os.Lstat(p.store.Dir(strings.TrimPrefix(filepath.Base(dir), prefix)))
		return err == nil
	})
}
