package tools

import "sync"

// launched remembers which sandboxes this server made, for whom. Labels do not tell: copies have them, too, and other
// servers of the same owner set the same.
type launched struct {
	mu    sync.Mutex
	owner map[string]string // by the sandbox's Ref
}

// add remembers that a sandbox was made for an owner.
func (l *launched) add(ref, owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		l.owner = map[string]string{}
	}
	l.owner[ref] = owner
}

// move remembers that a sandbox has become another one.
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
