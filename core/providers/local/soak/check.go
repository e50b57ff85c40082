//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

// notFound is sb's exit code for a name that does not exist.
const notFound = 3

// verify checks all invariants after a round. It also removes everything from the world.
func (r *round) verify(ctx context.Context) {
	sandboxes := r.truth(ctx)
	r.parallel(sandboxes, func(sb core.Sandbox) { r.usable(ctx, sb) })
	r.images(ctx, checkpointKey, launchCheckpoint, "checkpoint")
	r.images(ctx, snapshotKey, launchSnapshot, "snapshot")
	r.removeAll(ctx)
	r.nothingLeft(ctx)
}

// parallel calls do for each sandbox, a few at a time.
func (r *round) parallel(sandboxes []core.Sandbox, do func(core.Sandbox)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, sb := range sandboxes {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			do(sb)
		})
	}
	wg.Wait()
}

// eventually waits until problems returns none. It records the problems that remain after the time limit.
func (r *round) eventually(ctx context.Context, problems func() []string) {
	deadline := time.Now().Add(r.calm)
	for {
		left := problems()
		if len(left) == 0 || ctx.Err() != nil {
			return
		}
		if time.Now().After(deadline) {
			for _, text := range left {
				r.violation("%s", text)
			}
			return
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// ls lists all sandboxes.
func (r *round) ls(ctx context.Context) (sandboxes []core.Sandbox, problem string) {
	a := r.world.sb(ctx, nil, "ls", "--all", "--json")
	if err := json.Unmarshal([]byte(a.stdout), &sandboxes); err != nil || a.code != 0 {
		return nil, fmt.Sprintf("sb ls: exit code %d, %v: %s", a.code, err, a.stderr)
	}
	return sandboxes, ""
}

// truth waits until "sb ls" and the processes agree, and returns the listed sandboxes.
func (r *round) truth(ctx context.Context) (sandboxes []core.Sandbox) {
	r.eventually(ctx, func() (problems []string) {
		var problem string
		if sandboxes, problem = r.ls(ctx); problem != "" {
			return []string{problem}
		}
		processes, err := r.world.processes()
		if err != nil {
			return []string{err.Error()}
		}
		return disagreements(sandboxes, processes)
	})
	names := map[string]core.Sandbox{}
	for _, sb := range sandboxes {
		if sb.State.Live() {
			names[sb.Name] = sb
		}
	}
	for i := range shortNames {
		name := shortName(i)
		if sb := names[name]; r.ledger.certain(name) && sb.State != core.StateRunning && sb.State != core.StatePaused {
			r.violation("%s was launched and nothing ended it; it is %q: %s", name, sb.State, sb.Message)
		}
	}
	for i := range persistentNames {
		name := persistentName(i)
		if _, ok := names[name]; !ok && (r.ledger.certain(name) || r.ledger.least(name) > 0) {
			r.violation("%s persists and is not listed", name)
		}
	}
	return sandboxes
}

// disagreements lists the differences between the listed sandboxes and the processes.
func disagreements(sandboxes []core.Sandbox, processes []process) (problems []string) {
	of := map[string]map[role]int{}
	for _, p := range processes {
		if of[p.sandbox] == nil {
			of[p.sandbox] = map[role]int{}
		}
		of[p.sandbox][p.role]++
	}
	for _, sb := range sandboxes {
		has := of[sb.ID]
		delete(of, sb.ID)
		switch {
		case strings.HasPrefix(sb.Name, "own-") && sb.State != core.StateLost && sb.State != core.StateFailed &&
			sb.State != core.StateExited:
			problems = append(problems, fmt.Sprintf("%s of a client that has ended is %s", sb.Name, sb.State))
		case sb.State == core.StateCreating:
			problems = append(problems, sb.Name+" is being created by no process")
		case sb.State == core.StateRunning || sb.State == core.StatePaused:
			if has[supervisor] != 1 || has[sentry] == 0 || has[gofer] == 0 {
				problems = append(problems, fmt.Sprintf("%s (%s) is %s and has the processes %v", sb.Name, sb.ID, sb.State, has))
			}
		case len(has) > 0:
			problems = append(problems, fmt.Sprintf("%s (%s) is %s and has the processes %v", sb.Name, sb.ID, sb.State, has))
		}
	}
	for id, has := range of {
		problems = append(problems, fmt.Sprintf("processes of %q, which is not listed: %v", id, has))
	}
	return problems
}

// usable checks that a sandbox is usable in its state.
func (r *round) usable(ctx context.Context, sb core.Sandbox) {
	switch sb.State { //nolint:exhaustive // the others are usable as they are, or not at all
	case core.StatePaused:
		if a := r.world.sb(ctx, nil, "resume", sb.ID); a.code != 0 {
			r.violation("%s is paused and cannot be resumed: %s", sb.Name, a.stderr)
			return
		}
	case core.StateStopped:
		if a := r.world.sb(ctx, nil, "start", sb.ID); a.code != 0 {
			r.violation("%s is stopped and cannot be started: %s", sb.Name, a.stderr)
			return
		}
	case core.StateRunning:
	case core.StateCreating, core.StateExited, core.StateFailed, core.StateLost:
		return
	}
	generation := r.read(ctx, sb.Name)
	if least := r.ledger.least(sb.Name); sb.State == core.StateStopped && generation < least {
		r.violation("%s has the file's generation %d, and %d or later was saved", sb.Name, generation, least)
	}
}

// read returns the generation of the file in a running sandbox. A file that exists must be intact.
func (r *round) read(ctx context.Context, name string) int {
	a := r.world.sb(ctx, nil, "exec", name, "--", "sh", "-c", "! test -e "+guestFile+" || cat "+guestFile)
	if a.code != 0 {
		r.violation("%s runs and cannot be used: exit code %d: %s", name, a.code, a.stderr)
		return 0
	}
	generation, err := fileGeneration([]byte(a.stdout))
	if err != nil {
		r.violation("%s: %v", name, err)
	}
	return generation
}

// images checks that all checkpoints or snapshots are listed, and that a sandbox starts from one of them.
func (r *round) images(ctx context.Context, key func(string) string, from verb, noun string) {
	a := r.world.sb(ctx, nil, noun, "ls", "--json")
	var listed []struct {
		Name string `json:"name"` // of a checkpoint
		ID   string `json:"id"`   // of a snapshot
	}
	if err := json.Unmarshal([]byte(a.stdout), &listed); err != nil || a.code != 0 {
		r.violation("sb %s ls: exit code %d, %v: %s", noun, a.code, err, a.stderr)
		return
	}
	var names []string
	for _, one := range listed {
		names = append(names, one.Name+one.ID)
	}
	for i := range keptNames {
		name := fmt.Sprintf("image-%d", i)
		if r.ledger.certain(key(name)) && !slices.Contains(names, name) {
			r.violation("the %s %s was made, and is not listed", noun, name)
		}
	}
	if len(names) == 0 {
		return
	}
	chosen := names[r.number%len(names)]
	name := "from-" + noun
	if a := r.world.sb(ctx, nil, launchArgs(step{verb: from, name: name, other: chosen, variant: 3})...); a.code != 0 {
		r.violation("the %s %s is listed and no sandbox begins from it: %s", noun, chosen, a.stderr)
		return
	}
	r.read(ctx, name)
}

// removeAll removes everything as a user would. In every second round it removes dead sandboxes first.
func (r *round) removeAll(ctx context.Context) {
	calls := [][]string{{"terminate", "--all", "--yes"}, {"prune", "--yes", "--checkpoints"}}
	if r.number%2 == 0 {
		slices.Reverse(calls)
	}
	for i := range keptNames {
		name := fmt.Sprintf("image-%d", i)
		if a := r.world.sb(ctx, nil, "snapshot", "rm", name); a.code != 0 && a.code != notFound {
			r.violation("the snapshot %s cannot be removed: %s", name, a.stderr)
		}
	}
	for _, args := range calls {
		if a := r.world.sb(ctx, nil, args...); a.code != 0 {
			r.violation("sb %s: exit code %d: %s", strings.Join(args, " "), a.code, a.stderr)
		}
	}
	a := r.world.sb(ctx, nil, "prune", "--yes", "--json")
	var report core.PruneReport
	if err := json.Unmarshal([]byte(a.stdout), &report); err != nil || a.code != 0 {
		r.violation("sb prune: exit code %d, %v: %s", a.code, err, a.stderr)
	}
	if len(report.Leftovers)+len(report.Failures) > 0 || r.number%2 == 1 && len(report.Sandboxes) > 0 {
		r.violation("prune found more the second time: %s", a.stdout)
	}
}

// nothingLeft checks that the world is as empty as at the start.
func (r *round) nothingLeft(ctx context.Context) {
	r.eventually(ctx, func() (problems []string) {
		processes, err := r.world.processes()
		if err != nil {
			return []string{err.Error()}
		}
		for _, p := range processes {
			problems = append(problems, "left running: "+p.String())
		}
		return problems
	})
	left, err := r.world.difference()
	if err != nil {
		r.violation("the directories cannot be read: %v", err)
	}
	for _, path := range left {
		r.violation("left behind: %s", path)
	}
	for _, file := range []string{"/proc/self/mountinfo", "/proc/net/unix"} {
		text, err := os.ReadFile(file)
		if err != nil {
			r.violation("%v", err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, r.world.dir+"/") {
				r.violation("left in %s: %s", file, strings.TrimSpace(line))
			}
		}
	}
	ids, err := r.world.made.ids()
	if err != nil {
		r.violation("%v", err)
	}
	for _, id := range ids {
		for _, dir := range groupsOf(r.world.store.GroupName(id)) {
			r.violation("left behind: %s", dir)
		}
	}
}

// groupsOf lists the directories of a control group that still exist.
func groupsOf(name string) (dirs []string) {
	group, err := cgroup.Find(name)
	if err != nil {
		return nil // there are none on this machine
	}
	for _, dir := range group.Dirs {
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// explain returns the details for a violation's report: the state of each sandbox and its supervisor's log.
func (r *round) explain() string {
	var b strings.Builder
	processes, _ := r.world.processes()
	for _, p := range processes {
		_, _ = fmt.Fprintln(&b, p)
	}
	for _, pattern := range []string{"state.json", "supervisor.log"} {
		files, _ := filepath.Glob(r.world.path("home/.local/state/sb/local/sandboxes/*", pattern))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			_, _ = fmt.Fprintf(&b, "%s:\n%s\n", strings.TrimPrefix(file, r.world.dir), text[max(0, len(text)-2000):])
		}
	}
	return b.String()
}
