//go:build linux

package main

import "sync"

// ledger records the expected state of each name. The expectation follows from successful operations and possible
// interference, and is always certain: an operation counts only if no other one touched the name during it.
type ledger struct {
	mu      sync.Mutex
	records map[string]*record
	files   int // the newest generation of any file
}

// record is the expected state of one name.
type record struct {
	pushing sync.Mutex // held by a push, so that generations arrive in order

	epoch int // counts events that may have changed the sandbox's state
	there int // the epoch in which it was made; -1 if that is not certain

	pushed int          // the generation of the file that was written in this epoch; 0 is none
	loose  map[int]bool // generations that may still arrive, from running or killed pushes
	floor  int          // the saved file has this generation or a newer one
}

func newLedger() *ledger { return &ledger{records: map[string]*record{}} }

// of returns the record of a name. The caller holds mu.
func (l *ledger) of(name string) *record {
	r := l.records[name]
	if r == nil {
		r = &record{there: -1, loose: map[int]bool{}}
		l.records[name] = r
	}
	return r
}

// epoch returns the name's current epoch.
func (l *ledger) epoch(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(name).epoch
}

// disturb records that the sandbox of that name may now change without a successful operation.
func (l *ledger) disturb(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(name)
	r.epoch++
	r.there, r.pushed = -1, 0
}

// forget records that the named object may be removed now.
func (l *ledger) forget(name string) {
	l.disturb(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(name).floor = 0
}

// made records that an operation, which began in epoch, made the named object.
func (l *ledger) made(name string, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.of(name); r.epoch == epoch {
		r.there = epoch
	}
}

// certain reports whether the named object must exist, unchanged since it was made.
func (l *ledger) certain(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(name)
	return r.there == r.epoch
}

// beginPush returns the generation to write. The caller calls end after the push.
func (l *ledger) beginPush(name string) (generation int, end func(ok bool)) {
	l.mu.Lock()
	r := l.of(name)
	l.mu.Unlock()
	r.pushing.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files++
	generation, epoch := l.files, r.epoch
	r.loose[generation] = true
	return generation, func(ok bool) {
		defer r.pushing.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if !ok {
			return
		}
		delete(r.loose, generation)
		if r.epoch == epoch {
			r.pushed = generation
		}
	}
}

// saved records that a stop, which began in epoch, saved the sandbox's files.
func (l *ledger) saved(name string, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(name)
	if r.epoch != epoch || r.pushed == 0 {
		return
	}
	generation := r.pushed
	for loose := range r.loose {
		generation = min(generation, loose)
	}
	r.floor = max(r.floor, generation)
}

// least returns the oldest generation that the saved file may have.
func (l *ledger) least(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(name).floor
}
