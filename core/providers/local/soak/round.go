//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// round is one running round.
type round struct {
	world  *world
	number int
	ledger *ledger
	tally  *tally
	// calm bounds the wait until killed processes and their leftovers are gone.
	calm time.Duration

	mu         sync.Mutex
	began      time.Time
	events     []string
	violations []string
	// explanation is the result of explain at the first violation.
	explanation string
}

func newRound(w *world, number int, t *tally) *round {
	return &round{world: w, number: number, ledger: newLedger(), tally: t, calm: 45 * time.Second, began: time.Now()}
}

// violation records a violated invariant.
func (r *round) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.event("VIOLATION " + text)
	explanation := r.explain()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) == 0 {
		r.explanation = explanation
	}
	r.violations = append(r.violations, text)
}

// event records a line for the report of a violation.
func (r *round) event(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%7.3f %s", time.Since(r.began).Seconds(), text))
}

// play runs all clients' steps. It returns when all have ended and no process is stopped.
func (r *round) play(ctx context.Context, clients [][]step) {
	var wg sync.WaitGroup
	for i, steps := range clients {
		wg.Go(func() {
			for _, s := range steps {
				if ctx.Err() != nil {
					return
				}
				r.perform(ctx, i, s)
			}
		})
	}
	wg.Wait()
}

// prelude makes sandboxes for the clients.
func (r *round) prelude(ctx context.Context) {
	var clients [][]step
	for i := range persistentNames {
		name := persistentName(i)
		steps := []step{
			{verb: launchPersistent, name: name, variant: i}, {verb: push, name: name, variant: i}, {verb: stop, name: name},
		}
		if i > 0 {
			steps = append(steps, step{verb: start, name: name})
		}
		clients = append(clients, steps)
	}
	r.play(ctx, append(clients, []step{{verb: launch, name: shortName(0)}, {verb: launch, name: shortName(1)}}))
}

// perform runs one step and waits until its blow is over.
func (r *round) perform(ctx context.Context, client int, s step) {
	length := r.tally.usual(s.verb)
	if s.verb == rest {
		length = time.Duration(s.variant%150) * time.Millisecond
	}
	hit := &strike{round: r, step: s, length: length, started: make(chan process, 1)}
	over := make(chan struct{})
	go func() { defer close(over); hit.deliver(ctx) }()
	defer func() { <-over }()
	if s.verb == rest {
		close(hit.started)
		wait(ctx, length)
		return
	}
	a := r.operate(ctx, client, s, hit.take)
	close(hit.started)
	if s.blow == nil && a.code == 0 {
		r.tally.learn(s.verb, a.took)
	}
	r.tally.ended(s.verb, a)
	how := strconv.Itoa(a.code)
	if a.signaled {
		how = "killed"
	}
	r.event(
		fmt.Sprintf(
			"client %d: %s %s %s [%d]: %s after %s %s", client, s.verb, s.name, s.other, s.variant, how,
			a.took.Round(time.Millisecond), firstLine(a.stderr),
		),
	)
	if a.err != nil {
		r.violation("sb %s %s did not end within %s: %v\n%s", s.verb, s.name, callTimeout, a.err, a.stderr)
	}
	if strings.Contains(a.stderr, "panic:") || strings.Contains(a.stderr, "goroutine ") ||
		strings.Contains(a.stderr, "fatal error:") {
		r.violation("sb %s %s crashed:\n%s", s.verb, s.name, a.stderr)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// wait sleeps, unless the context ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// operate calls sb for a step and updates the ledger.
func (r *round) operate(ctx context.Context, client int, s step, started func(process)) answer {
	sb := func(args ...string) answer { return r.world.sb(ctx, started, args...) }
	switch s.verb {
	case launch, launchPersistent, launchCheckpoint, launchSnapshot:
		epoch := r.ledger.epoch(s.name)
		a := sb(launchArgs(s)...)
		if a.code == 0 {
			r.ledger.made(s.name, epoch)
		}
		return a
	case fork:
		epoch := r.ledger.epoch(s.other)
		a := sb("fork", s.name, "--name", s.other)
		if a.code == 0 {
			r.ledger.made(s.other, epoch)
		}
		return a
	case terminate:
		r.ledger.forget(s.name)
		defer r.ledger.forget(s.name)
		return sb("terminate", s.name)
	case start:
		r.ledger.disturb(s.name)
		defer r.ledger.disturb(s.name)
		return sb("start", s.name)
	case stop:
		epoch := r.ledger.epoch(s.name)
		a := sb("stop", s.name)
		if a.code == 0 {
			r.ledger.saved(s.name, epoch)
		}
		r.ledger.disturb(s.name)
		return a
	case push:
		return r.push(s, client, sb)
	case pull:
		return r.pull(s, client, sb)
	case execute, run:
		return r.echo(s, sb)
	case checkpoint, snapshot, checkpointRemove, snapshotRemove:
		return r.image(s, sb)
	default:
		return sb(simpleArgs(s)...)
	}
}

// launchArgs returns the arguments of a launch.
func launchArgs(s step) []string {
	args := []string{"launch", "--quiet", "--provider", "local", "--name", s.name}
	switch s.verb {
	case launchCheckpoint:
		return append(args, "--checkpoint", s.other)
	case launchSnapshot:
		args = append(args, "--snapshot", s.other)
	case launchPersistent:
		args = append(args, "--persist")
	}
	args = append(args, "--memory", "256MiB")
	switch s.variant % 4 {
	case 0:
		args = append(args, "--network", "none")
	case 1:
		args = append(args, "--allow", "192.0.2.0/24")
	case 2:
		args = append(args, "--port", "0:80")
	}
	if s.variant/4%4 == 0 {
		args = append(args, "--", "sleep", "1000")
	}
	return args
}

// simpleArgs returns the arguments of operations that do not change the ledger.
func simpleArgs(s step) []string {
	switch s.verb {
	case detach:
		return []string{"exec", "--detach", s.name, "--", "sleep", "1000"}
	case policy:
		if s.variant%2 == 0 {
			return []string{"policy", "set", s.name, "--network", "none"}
		}
		return []string{"policy", "set", s.name, "--allow", "198.51.100.0/24"}
	case prune:
		return []string{"prune", "--yes"}
	case list:
		return []string{"ls", "--all", "--json"}
	default:
		return []string{s.verb, s.name}
	}
}

// guestFile is the path of the file that clients write and read in every sandbox.
const guestFile = "/root/file"

func (r *round) push(s step, client int, sb func(...string) answer) answer {
	generation, end := r.ledger.beginPush(s.name)
	file := r.world.path("work", fmt.Sprintf("push-%d", client))
	if err := os.WriteFile(file, fileContent(generation, 1<<(s.variant%20)), 0o600); err != nil {
		end(false)
		return answer{err: err}
	}
	a := sb("push", file, s.name+":"+guestFile)
	end(a.code == 0)
	return a
}

// pull checks that a pulled file is intact, also if the client was killed.
func (r *round) pull(s step, client int, sb func(...string) answer) answer {
	dir := r.world.path("work", fmt.Sprintf("pull-%d", client))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return answer{err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := filepath.Join(dir, "file")
	a := sb("pull", s.name+":"+guestFile, target)
	content, err := os.ReadFile(target)
	if err == nil {
		_, err = fileGeneration(content)
	}
	if err != nil && (a.code == 0 || !errors.Is(err, os.ErrNotExist)) {
		r.violation("pull from %s, exit code %d: %v", s.name, a.code, err)
	}
	return a
}

// echo checks that the output of a successful command is complete.
func (r *round) echo(s step, sb func(...string) answer) answer {
	lines := 1 + s.variant%3000
	args := []string{"exec", s.name}
	if s.verb == run {
		args = []string{"run", "--name", s.name, "--memory", "256MiB"}
	}
	a := sb(append(args, "--", "seq", strconv.Itoa(lines))...)
	if got := strings.Count(a.stdout, "\n"); a.code == 0 && (got != lines ||
		!strings.HasSuffix(a.stdout, fmt.Sprintf("%d\n", lines))) {
		r.violation("%s in %s: exit code 0 with %d of %d lines", s.verb, s.name, got, lines)
	}
	return a
}

// image makes or removes a checkpoint or a snapshot.
func (r *round) image(s step, sb func(...string) answer) answer {
	key := checkpointKey(s.other)
	if s.verb == snapshot || s.verb == snapshotRemove {
		key = snapshotKey(s.other)
	}
	switch s.verb {
	case checkpointRemove, snapshotRemove:
		r.ledger.forget(key)
		defer r.ledger.forget(key)
		noun, _, _ := strings.Cut(s.verb, " ")
		return sb(noun, "rm", s.other)
	case checkpoint:
		epoch := r.ledger.epoch(key)
		a := sb("checkpoint", "create", s.name, "--name", s.other)
		if a.code == 0 {
			r.ledger.made(key, epoch)
		}
		return a
	default:
		epoch := r.ledger.epoch(key)
		a := sb("snapshot", s.name, s.other)
		if a.code == 0 {
			r.ledger.made(key, epoch)
		}
		return a
	}
}

// Checkpoints and snapshots share the ledger with sandboxes. Their keys contain a blank, and names of sandboxes do not.
func checkpointKey(name string) string { return "checkpoint " + name }
func snapshotKey(name string) string   { return "snapshot " + name }

// strike is the blow of a running step.
type strike struct {
	round   *round
	step    step
	length  time.Duration // the operation's usual length
	started chan process  // the client, once it runs; closed when it has ended
}

func (h *strike) take(p process) { h.started <- p }

// deliver waits for the moment and sends the signal.
func (h *strike) deliver(ctx context.Context) {
	b := h.step.blow
	if b == nil {
		return
	}
	victim, running := <-h.started
	wait(ctx, time.Duration(b.at*float64(h.length)))
	if ctx.Err() != nil {
		return
	}
	id, _ := h.round.world.store.Named(h.step.name)
	if b.role != client {
		if p, ok := h.round.world.find(id, b.role); ok {
			victim, running = p, true
		}
	}
	if !running {
		h.round.tally.missed()
		return
	}
	if victim.role != client {
		h.round.ledger.disturb(h.step.name)
		defer h.round.ledger.disturb(h.step.name)
	}
	last := b.signal
	h.send(ctx, victim, last)
	if last == unix.SIGSTOP {
		last = b.then
		wait(ctx, b.hold)
		h.send(ctx, victim, last)
	}
	if last != unix.SIGCONT {
		victim.awaitEnd(ctx)
	}
}

func (h *strike) send(ctx context.Context, victim process, signal unix.Signal) {
	err := victim.signal(signal)
	if err != nil && !errors.Is(err, errGone) && ctx.Err() == nil {
		h.round.violation("%s cannot be sent to %s: %v", unix.SignalName(signal), victim, err)
	}
	if err != nil {
		h.round.tally.missed()
		return
	}
	h.round.tally.sent(victim.role, signal, h.step.verb)
	h.round.event(
		fmt.Sprintf(
			"%s to the %s %d of %s during %s %s", unix.SignalName(signal), victim.role, victim.pid, h.step.name, h.step.verb,
			h.step.name,
		),
	)
}
