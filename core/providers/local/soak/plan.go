//go:build linux

package main

import (
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// role is the role of a process for a sandbox.
type role string

// The roles. A plan kills all except traced.
const (
	client     role = "client"
	supervisor role = "supervisor"
	sentry     role = "sentry"
	gofer      role = "gofer"
	traced     role = "traced" // a process inside, as a child of the sentry
)

// blow is a signal that soak sends during a step.
type blow struct {
	role   role
	signal unix.Signal
	// at is the moment as a fraction of the operation's usual length.
	at float64
	// hold is how long a process stays stopped after SIGSTOP. then is the signal after that: SIGCONT or SIGKILL.
	hold time.Duration
	then unix.Signal
}

// step is one operation of one client.
type step struct {
	verb verb
	// name is the sandbox. other is the second name that some verbs need.
	name, other string
	// variant selects among the forms of the operation.
	variant int
	// blow is nil for an undisturbed step.
	blow *blow
}

// verb is an operation of sb, in the form of its command line.
type verb = string

const (
	launch           verb = "launch"
	launchPersistent verb = "launch --persist"
	launchCheckpoint verb = "launch --checkpoint"
	launchSnapshot   verb = "launch --snapshot"
	start            verb = "start"
	stop             verb = "stop"
	pause            verb = "pause"
	resume           verb = "resume"
	terminate        verb = "terminate"
	run              verb = "run"
	execute          verb = "exec"
	detach           verb = "exec --detach"
	push             verb = "push"
	pull             verb = "pull"
	fork             verb = "fork"
	checkpoint       verb = "checkpoint create"
	checkpointRemove verb = "checkpoint rm"
	snapshot         verb = "snapshot"
	snapshotRemove   verb = "snapshot rm"
	policy           verb = "policy set"
	prune            verb = "prune"
	list             verb = "ls"
	inspect          verb = "inspect"
	stats            verb = "stats"
	logs             verb = "logs"
	rest             verb = "rest"
)

// shares returns the weight of each verb and the kind of its sandbox.
func shares() []share {
	return []share{
		{launch, 18, short},
		{launchPersistent, 4, persistent},
		{start, 12, persistent},
		{stop, 6, persistent},
		{push, 6, persistent},
		{push, 3, short},
		{pull, 4, persistent},
		{pull, 2, short},
		{execute, 6, short},
		{execute, 4, persistent},
		{detach, 3, short},
		{run, 8, own},
		{pause, 2, short},
		{pause, 1, persistent},
		{resume, 3, short},
		{resume, 1, persistent},
		{fork, 4, short},
		{fork, 1, persistent},
		{checkpoint, 2, short},
		{launchCheckpoint, 2, short},
		{checkpointRemove, 1, short},
		{snapshot, 2, persistent},
		{launchSnapshot, 2, short},
		{snapshotRemove, 1, short},
		{policy, 3, short},
		{terminate, 5, short},
		{terminate, 1, persistent},
		{prune, 4, short},
		{list, 3, short},
		{inspect, 1, persistent},
		{stats, 2, short},
		{logs, 1, short},
		{rest, 3, short},
		{rest, 3, persistent},
	}
}

type share struct {
	verb   verb
	weight int
	kind   kind
}

// kind selects the names from which a step takes its sandbox.
type kind int

const (
	short      kind = iota // sandboxes that do not persist, shared by all clients
	persistent             // persistent sandboxes, shared by all clients
	own                    // a name of this client only
)

// The number of names of each kind in one round.
const (
	shortNames      = 5
	persistentNames = 3
	keptNames       = 2 // of checkpoints, and of snapshots
)

func shortName(i int) string      { return "short-" + strconv.Itoa(i) }
func persistentName(i int) string { return "kept-" + strconv.Itoa(i) }

// plan returns the steps of each client in a round. They depend only on the arguments.
func plan(seed uint64, round, clients, steps int) [][]step {
	all := make([][]step, clients)
	for i := range all {
		//nolint:gosec // a plan is public, and must be reproducible
		r := rand.New(rand.NewPCG(seed, uint64(round)<<16|uint64(i)))
		for range steps {
			all[i] = append(all[i], randomStep(r, i))
		}
	}
	return all
}

func randomStep(r *rand.Rand, client int) step {
	chosen := pick(r, shares(), func(s share) int { return s.weight })
	s := step{verb: chosen.verb, variant: r.IntN(1 << 16)}
	switch chosen.kind {
	case short:
		s.name = shortName(r.IntN(shortNames))
	case persistent:
		s.name = persistentName(r.IntN(persistentNames))
	case own:
		s.name = "own-" + strconv.Itoa(client)
	}
	s.other = s.secondName(r)
	s.blow = randomBlow(r)
	return s
}

// secondName chooses the second name of the verbs that need one.
func (s step) secondName(r *rand.Rand) string {
	i := r.IntN(shortNames)
	switch s.verb {
	case fork:
		return shortName(i)
	case checkpoint, launchCheckpoint, checkpointRemove, snapshot, launchSnapshot, snapshotRemove:
		return "image-" + strconv.Itoa(i%keptNames)
	default:
		return ""
	}
}

// randomBlow returns nil for one step in six.
func randomBlow(r *rand.Rand) *blow {
	if r.IntN(6) == 0 {
		return nil
	}
	type chance struct {
		role   role
		weight int
	}
	b := &blow{
		role: pick(r, []chance{{client, 50}, {supervisor, 18}, {sentry, 17}, {gofer, 15}}, func(c chance) int {
			return c.weight
		}).role,
		signal: unix.SIGKILL,
		at:     r.Float64(),
		hold:   time.Duration(5+r.IntN(200)) * time.Millisecond,
		then:   unix.SIGKILL,
	}
	switch r.IntN(12) {
	case 0:
		b.signal = unix.SIGTERM
	case 1:
		b.signal, b.then = unix.SIGSTOP, unix.SIGCONT
	case 2:
		b.signal = unix.SIGSTOP
	}
	return b
}

// pick chooses one of all by its weight.
func pick[T any](r *rand.Rand, all []T, weight func(T) int) T {
	sum := 0
	for _, one := range all {
		sum += weight(one)
	}
	n := r.IntN(sum)
	for _, one := range all {
		if n -= weight(one); n < 0 {
			return one
		}
	}
	panic("unreachable: n is below the sum of the weights")
}
