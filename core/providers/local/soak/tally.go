//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// tally counts the events of all rounds. Its methods are safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	began   time.Time
	rounds  int
	signals map[role]map[unix.Signal]int
	during  map[verb]int // kills
	calls   map[verb]map[string]int
	lengths map[verb]time.Duration
	misses  int
}

func newTally() *tally {
	return &tally{
		began: time.Now(), signals: map[role]map[unix.Signal]int{}, during: map[verb]int{}, calls: map[verb]map[string]int{},
		lengths: map[verb]time.Duration{},
	}
}

// usual returns the average length of an undisturbed operation.
func (t *tally) usual(v verb) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.lengths[v], 60*time.Millisecond)
}

// learn adds an undisturbed operation's length to the average.
func (t *tally) learn(v verb, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lengths[v] = (3*cmp.Or(t.lengths[v], took) + took) / 4
}

// sent counts a signal that reached a living process.
func (t *tally) sent(r role, signal unix.Signal, v verb) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signals[r] == nil {
		t.signals[r] = map[unix.Signal]int{}
	}
	t.signals[r][signal]++
	if signal == unix.SIGKILL {
		t.during[v]++
	}
}

// missed counts a blow that found no process.
func (t *tally) missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.misses++
}

// ended counts a call by its exit.
func (t *tally) ended(v verb, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[v] == nil {
		t.calls[v] = map[string]int{}
	}
	how := fmt.Sprintf("exit %d", a.code)
	if a.signaled {
		how = "killed"
	}
	t.calls[v][how]++
}

// kills returns the number of processes that were killed with SIGKILL.
func (t *tally) kills() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := 0
	for _, n := range t.during {
		sum += n
	}
	return sum
}

// line returns the progress in one line.
func (t *tally) line() string {
	kills := t.kills()
	t.mu.Lock()
	defer t.mu.Unlock()
	took := time.Since(t.began)
	return fmt.Sprintf(
		"%d rounds, %d kills in %s (%.0f in a minute)", t.rounds, kills, took.Round(time.Second),
		float64(kills)/took.Minutes(),
	)
}

// report writes everything as tables.
func (t *tally) report(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "process\tSIGKILL\tSIGTERM\tSIGSTOP\tSIGCONT")
	for _, r := range []role{client, supervisor, sentry, gofer} {
		s := t.signals[r]
		_, _ = fmt.Fprintf(
			table, "%s\t%d\t%d\t%d\t%d\n", r, s[unix.SIGKILL], s[unix.SIGTERM], s[unix.SIGSTOP], s[unix.SIGCONT],
		)
	}
	_, _ = fmt.Fprintf(table, "\noperation\tkills during it\tends\n")
	for _, v := range slices.Sorted(maps.Keys(t.during)) {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%v\n", v, t.during[v], t.calls[v])
	}
	_, _ = fmt.Fprintf(table, "\n%d signals found no process\n", t.misses)
	return table.Flush()
}
