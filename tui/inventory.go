package tui

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
)

const (
	// pollFirst and pollMost bound the interval between two lists of a provider without events. The interval grows while
	// the list stays the same or the provider fails.
	pollFirst = 2 * time.Second
	pollMost  = 30 * time.Second
	// pollWatched is the interval for a provider that sends events.
	pollWatched = 15 * time.Second
	// checkEvery is the interval between two health checks of a provider.
	checkEvery = 30 * time.Second
	// patience is how long a list may take before the shown sandboxes count as stale.
	patience = 3 * time.Second
)

// entry is the last known state of one sandbox.
type entry struct {
	box    core.Sandbox
	from   *source
	series series
	search []string // the fields that the filter searches; see searched
}

// source is the dashboard's view of one provider.
type source struct {
	name string
	caps core.Capabilities
	// status is the last health check; nil before the first.
	status *service.ProviderStatus
	// listed is the time of the last successful list.
	listed time.Time
	// failed is the last list's failure; nil after a success.
	failed *core.ProviderFailure

	polling bool
	polled  time.Time // start of the running poll
	again   bool      // something changed since then
	wait    time.Duration
	next    time.Time

	down      bool // a notice reported its failure
	checking  bool
	nextCheck time.Time
	sampling  bool
}

// trouble returns why the provider is unusable and how to fix it, or "".
func (s *source) trouble() (why, hint string) {
	switch {
	case s.failed != nil && s.failed.Kind == core.KindTimeout:
		return "no answer", s.failed.Hint
	case s.failed != nil:
		return s.failed.Error, s.failed.Hint
	case s.status != nil && !s.status.Usable:
		return s.status.Error, s.status.Hint
	}
	return "", ""
}

// old reports whether the provider's answer is overdue, and the age of its last list: 0 without one.
func (s *source) old(now time.Time) (age time.Duration, overdue bool) {
	if s.failed == nil && (!s.polling || now.Sub(s.polled) < patience) {
		return 0, false
	}
	if s.listed.IsZero() {
		return 0, true
	}
	return now.Sub(s.listed), true
}

// inventory holds the known providers and sandboxes.
type inventory struct {
	sources []*source
	entries map[string]*entry // by sandbox id
}

func newInventory(providers []string) *inventory {
	inv := &inventory{entries: map[string]*entry{}}
	for _, name := range providers {
		inv.sources = append(inv.sources, &source{name: name, wait: pollFirst})
	}
	return inv
}

func (inv *inventory) source(name string) *source {
	for _, s := range inv.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// can reports whether a sandbox's provider has a capability.
func (inv *inventory) can(e *entry, want core.Capability) bool {
	return e != nil && e.from != nil && e.from.caps.Can(want)
}

// anyCan reports whether some provider has a capability.
func (inv *inventory) anyCan(want core.Capability) bool {
	return slices.ContainsFunc(inv.sources, func(s *source) bool { return s.caps.Can(want) })
}

// due returns the providers to list now and marks them as polling.
func (inv *inventory) due(now time.Time) []string {
	var names []string
	for _, s := range inv.sources {
		if !s.polling && !now.Before(s.next) {
			s.polling, s.polled = true, now
			names = append(names, s.name)
		}
	}
	return names
}

// dueChecks returns the providers to check now and marks them as checking.
func (inv *inventory) dueChecks(now time.Time) []string {
	var names []string
	for _, s := range inv.sources {
		if !s.checking && !now.Before(s.nextCheck) {
			s.checking = true
			names = append(names, s.name)
		}
	}
	return names
}

// hurry makes a provider due now, because something changed there.
func (inv *inventory) hurry(name string, now time.Time) {
	if s := inv.source(name); s != nil {
		s.next, s.wait, s.again = now, pollFirst, s.polling
	}
}

// Take stores a provider's list and reports whether anything changed.
func (inv *inventory) Take(name string, listing service.Listing, now time.Time) (changed bool) {
	s := inv.source(name)
	if s == nil {
		return false
	}
	again := s.again
	s.polling, s.again = false, false
	if len(listing.Failures) > 0 {
		changed = s.failed == nil
		s.failed = &listing.Failures[0]
		s.wait = min(s.wait*2, pollMost)
		s.next = now.Add(s.wait)
		return changed
	}
	changed = s.failed != nil
	s.failed, s.listed = nil, now
	seen := make(map[string]bool, len(listing.Sandboxes))
	for _, box := range listing.Sandboxes {
		seen[box.ID] = true
		changed = inv.Put(s, box) || changed
	}
	maps.DeleteFunc(inv.entries, func(id string, e *entry) bool {
		gone := e.from == s && !seen[id]
		changed = changed || gone
		return gone
	})
	switch {
	case again:
		s.wait, s.next = pollFirst, now
	case s.caps.Can(core.CapWatch):
		s.next = now.Add(pollWatched)
	case changed:
		s.wait = pollFirst
		s.next = now.Add(s.wait)
	default:
		s.wait = min(s.wait*3/2, pollMost)
		s.next = now.Add(s.wait)
	}
	return changed
}

// Put stores one sandbox and reports whether it is new or looks different.
func (inv *inventory) Put(s *source, box core.Sandbox) bool {
	e := inv.entries[box.ID]
	if e == nil {
		e = &entry{from: s}
		inv.entries[box.ID] = e
	}
	same := e.search != nil && e.box.State == box.State && e.box.Reason == box.Reason && e.box.Frozen == box.Frozen &&
		e.box.Name == box.Name && e.box.Image == box.Image && e.box.Expires.Equal(box.Expires) &&
		e.box.LastActive.Equal(box.LastActive) && (e.box.Cost == nil) == (box.Cost == nil)
	e.box = box
	if !same {
		e.search = searched(box)
	}
	return !same
}

// apply applies an event and reports whether anything changed.
func (inv *inventory) apply(event core.Event) bool {
	if event.Type != core.EventState || event.Sandbox == "" {
		return false
	}
	e := inv.entries[event.Sandbox]
	if e == nil {
		return false
	}
	if event.State == "" {
		delete(inv.entries, event.Sandbox)
		return true
	}
	e.box.State, e.box.Reason, e.box.Message = event.State, event.Reason, event.Message
	e.search = searched(e.box)
	return true
}

// sampled stores the resource use of running sandboxes.
func (inv *inventory) sampled(msg sampledMsg) {
	inv.source(msg.provider).sampling = false
	for _, stats := range msg.stats {
		if e := inv.entries[stats.Sandbox]; e != nil {
			e.series = e.series.add(stats)
			if e.box.Frozen != stats.Frozen {
				e.box.Frozen = stats.Frozen
				e.search = searched(e.box)
			}
		}
	}
}

// searched returns the fields for the fuzzy filter: the labels and every column that does not change with the clock.
func searched(box core.Sandbox) []string {
	fields := []string{box.Name, stateWord(box), box.Provider, box.App, box.Image, box.GPU.String()}
	for _, key := range slices.Sorted(maps.Keys(box.Labels)) {
		fields = append(fields, key+"="+box.Labels[key])
	}
	for i, f := range fields {
		fields[i] = guesttext.Line(f)
	}
	return fields
}

// stateWord describes a sandbox's state in one or two words.
func stateWord(box core.Sandbox) string {
	switch {
	case box.Frozen && box.State == core.StateRunning:
		return "frozen"
	case box.ExitCode != nil && box.State == core.StateExited && box.Reason == core.ReasonCommand:
		return "exited " + strconv.Itoa(*box.ExitCode)
	case box.Reason != "" && !box.State.Live():
		return string(box.State) + " " + strings.ReplaceAll(string(box.Reason), "_", " ")
	}
	return string(box.State)
}

// maxSamples is how many samples of a sandbox are kept for graphs.
const maxSamples = 300

// sample is a sandbox's resource use at one moment. Rates are relative to the previous sample.
type sample struct {
	core.Stats
	cpu          float64 // percent of one core
	received     float64 // bytes a second
	sent         float64
	disk, memory float64
}

// series holds a sandbox's samples, oldest first.
type series []sample

func (s series) add(stats core.Stats) series {
	next := sample{Stats: stats, memory: float64(stats.Memory), disk: float64(stats.Disk)}
	if len(s) > 0 {
		before := s[len(s)-1]
		if seconds := stats.Time.Sub(before.Time).Seconds(); seconds > 0 {
			next.cpu = max(0, 100*(stats.CPU-before.CPU).Seconds()/seconds)
			next.received = max(0, float64(stats.NetReceived-before.NetReceived)/seconds)
			next.sent = max(0, float64(stats.NetSent-before.NetSent)/seconds)
		}
	}
	if len(s) >= maxSamples {
		s = append(s[:0], s[len(s)-maxSamples+1:]...)
	}
	return append(s, next)
}

func (s series) last() (sample, bool) {
	if len(s) == 0 {
		return sample{}, false
	}
	return s[len(s)-1], true
}

// values returns the last n values of one measure.
func (s series) values(n int, of func(sample) float64) []float64 {
	if len(s) > n {
		s = s[len(s)-n:]
	}
	values := make([]float64, len(s))
	for i := range s {
		values[i] = of(s[i])
	}
	return values
}
