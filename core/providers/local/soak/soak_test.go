//go:build linux

package main

import (
	"bytes"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
)

func TestMain(m *testing.M) {
	os.Exit(programtest.With(m, "sb", "sb-runtime", "sb-guest").Run())
}

func TestPlanFollowsFromTheSeed(t *testing.T) {
	if !reflect.DeepEqual(plan(7, 3, 4, 50), plan(7, 3, 4, 50)) {
		t.Error("one seed gives two plans")
	}
	if reflect.DeepEqual(plan(7, 3, 4, 50), plan(8, 3, 4, 50)) || reflect.DeepEqual(plan(7, 3, 4, 50), plan(7, 4, 4, 50)) {
		t.Error("two seeds or rounds give one plan")
	}
}

// sb accepts the command line of each verb. No other test would notice a verb that always fails.
func TestEachVerbSucceeds(t *testing.T) {
	w := emptyWorld(t)
	r := newRound(w, 0, newTally())
	short, kept := shortName(0), persistentName(0)
	for _, s := range []step{
		{verb: launch, name: short, variant: 2},
		{verb: launchPersistent, name: kept, variant: 1},
		{verb: push, name: kept, variant: 12},
		{verb: pull, name: kept},
		{verb: execute, name: short, variant: 100},
		{verb: detach, name: short},
		{verb: run, name: "own-0", variant: 100},
		{verb: pause, name: short},
		{verb: resume, name: short},
		{verb: policy, name: short},
		{verb: policy, name: short, variant: 1},
		{verb: fork, name: short, other: shortName(1)},
		{verb: checkpoint, name: short, other: "image-0"},
		{verb: launchCheckpoint, name: shortName(2), other: "image-0"},
		{verb: checkpointRemove, other: "image-0"},
		{verb: snapshot, name: kept, other: "image-0"},
		{verb: launchSnapshot, name: shortName(3), other: "image-0"},
		{verb: snapshotRemove, other: "image-0"},
		{verb: stop, name: kept},
		{verb: start, name: kept},
		{verb: list},
		{verb: inspect, name: kept},
		{verb: stats, name: short},
		{verb: logs, name: short},
		{verb: prune},
		{verb: terminate, name: shortName(1)},
	} {
		if a := r.operate(t.Context(), 0, s, nil); a.code != 0 || a.err != nil {
			t.Errorf("%s: exit code %d, %v: %s", s.verb, a.code, a.err, a.stderr)
		}
	}
	if !r.ledger.certain(short) || r.ledger.least(kept) != 1 {
		t.Errorf(
			"the ledger knows %t of %s and generation %d of %s", r.ledger.certain(short), short, r.ledger.least(kept), kept,
		)
	}
	r.verify(t.Context())
	for _, violation := range r.violations {
		t.Error(violation)
	}
}

// Each planted violation is found by its invariant.
func TestViolationsAreFound(t *testing.T) {
	w := emptyWorld(t)
	for name, plant := range map[string]func(t *testing.T, r *round){
		"left behind: run/socket": func(t *testing.T, r *round) {
			t.Helper()
			if err := os.WriteFile(r.world.path("run/socket"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"left in /proc/net/unix": func(t *testing.T, r *round) {
			t.Helper()
			listener, err := net.Listen("unix", r.world.path("run/socket"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
		},
		"left behind: home/.cache/sb/overlay/loc-aaaaaaaa": func(t *testing.T, r *round) {
			t.Helper()
			plantDir(t, r.world.path("home/.cache/sb/overlay/loc-aaaaaaaa"))
		},
		"was launched and nothing ended it": func(t *testing.T, r *round) {
			t.Helper()
			r.ledger.made(shortName(0), r.ledger.epoch(shortName(0)))
		},
		"persists and is not listed": func(t *testing.T, r *round) {
			t.Helper()
			generation, end := r.ledger.beginPush(persistentName(0))
			end(true)
			r.ledger.saved(persistentName(0), r.ledger.epoch(persistentName(0)))
			if r.ledger.least(persistentName(0)) != generation {
				t.Fatal("the ledger did not believe the stop")
			}
		},
		"left running: supervisor": func(t *testing.T, r *round) {
			t.Helper()
			cmd := r.world.command(t.Context(), "supervise") // under the name that sb starts it by
			cmd.Path = r.world.path("bin/sb-runtime")
			stdin, err := cmd.StdinPipe() // it waits for its request
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = stdin.Close(), cmd.Wait() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRound(w, 1, newTally())
			r.calm = time.Second
			plant(t, r)
			if !strings.Contains(name, "running") {
				r.truth(t.Context())
			}
			r.nothingLeft(t.Context())
			if !strings.Contains(strings.Join(r.violations, "\n"), name) {
				t.Errorf("found are %q", r.violations)
			}
			if err := w.clear(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDisagreements(t *testing.T) {
	running := []process{
		{sandbox: "loc-a", role: supervisor}, {sandbox: "loc-a", role: sentry}, {sandbox: "loc-a", role: gofer},
	}
	for _, tt := range []struct {
		name      string
		sandbox   core.Sandbox
		processes []process
		want      string
	}{
		{"running", core.Sandbox{ID: "loc-a", State: core.StateRunning}, running, ""},
		{"no gofer", core.Sandbox{ID: "loc-a", State: core.StateRunning}, running[:2], "is running and has"},
		{"no process", core.Sandbox{ID: "loc-a", State: core.StatePaused}, nil, "is paused and has"},
		{"a gofer of a dead one", core.Sandbox{ID: "loc-a", State: core.StateLost}, running[2:], "is lost and has"},
		{"dead", core.Sandbox{ID: "loc-a", State: core.StateLost}, nil, ""},
		{"creating", core.Sandbox{ID: "loc-a", State: core.StateCreating}, running, "created by no process"},
		{"bound", core.Sandbox{ID: "loc-a", Name: "own-1", State: core.StateRunning}, running, "of a client that has ended"},
		{"not listed", core.Sandbox{ID: "loc-b", State: core.StateLost}, running, "not listed"},
	} {
		got := strings.Join(disagreements([]core.Sandbox{tt.sandbox}, tt.processes), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

func TestDamagedFilesAreFound(t *testing.T) {
	content := fileContent(12, 4096)
	if generation, err := fileGeneration(content); generation != 12 || err != nil {
		t.Errorf("a whole file: %d, %v", generation, err)
	}
	for name, damaged := range map[string][]byte{
		"cut":     content[:len(content)-1],
		"a bit":   append(append([]byte{}, content[:900]...), append([]byte{content[900] ^ 1}, content[901:]...)...),
		"a hole":  append(append([]byte{}, content[:512]...), append(make([]byte, 512), content[1024:]...)...),
		"nothing": []byte("\x00"),
	} {
		if _, err := fileGeneration(damaged); err == nil {
			t.Errorf("%s: it passes for whole", name)
		}
	}
}

// A stop proves a generation only if nothing disturbed the sandbox between the push and the stop.
func TestLedgerClaimsOnlyCertainties(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(l *ledger)
		want    int
	}{
		"undisturbed":       {func(*ledger) {}, 2},
		"killed in between": {func(l *ledger) { l.disturb("a") }, 0},
		"a loose push":      {func(l *ledger) { _, end := l.beginPush("a"); end(false) }, 2},
		"terminated":        {func(l *ledger) { l.forget("a") }, 0},
	} {
		l := newLedger()
		_, end := l.beginPush("b")
		end(true)
		_, end = l.beginPush("a")
		end(true)
		tt.between(l)
		l.saved("a", l.epoch("a"))
		if got := l.least("a"); got != tt.want {
			t.Errorf("%s: generation %d, want %d", name, got, tt.want)
		}
	}
}

// A round with kills ends without a violation, and the program prints that.
func TestSoak(t *testing.T) {
	programtest.Long(t)
	var out, errors bytes.Buffer
	args := []string{
		"-bin", programtest.Dir(), "-dir", t.TempDir(), "-rounds", "1", "-seed", "1", "-clients", "3", "-steps", "8",
	}
	if code := soakMain(t.Context(), args, &out, &errors); code != 0 ||
		!strings.Contains(out.String(), " 0 violations, seed 1") {
		t.Errorf("exit code %d: %s%s", code, out.String(), errors.String())
	}
	if code := soakMain(t.Context(), nil, &out, &errors); code != 2 {
		t.Errorf("without -bin: exit code %d", code)
	}
}

func emptyWorld(t *testing.T) *world {
	t.Helper()
	w, err := newWorld(programtest.Dir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func plantDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
