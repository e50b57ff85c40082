package tools

import "sync"

// launched records the owner of each sandbox that this server made. Labels are not enough: copies have the same labels,
// and other servers of the same owner set them, too.
type launched struct {
	mu    sync.Mutex
	owner map[string]string // by the sandbox's Ref
}

// add records the owner of a sandbox.
func (l *launched) add(ref, owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		l.owner = map[string]string{}
	}
	l.owner[ref] = owner
}

// move records the successor of a moved sandbox. kept reports that the original still exists.
func (l *launched) move(from, to string, kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner, ours := l.owner[from]; ours {
		l.owner[to] = owner
	}
	if !kept {
		delete(l.owner, from)
	}
}

func (l *launched) forget(ref string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owner, ref)
}

// of returns the references of an owner's sandboxes.
func (l *launched) of(owner string) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	refs := map[string]bool{}
	for ref, of := range l.owner {
		if of == owner {
			refs[ref] = true
		}
	}
	return refs
}
