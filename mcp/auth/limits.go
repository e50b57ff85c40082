package auth

import (
	"cmp"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// Limiter bounds the requests per second of each API key and of each OAuth user. Callers without a key share one bound
// for each address.
type Limiter struct {
	rate float64 // negative is no bound

	mu sync.Mutex
	by map[string]*rate.Limiter
}

// limiterMost is the number of callers in memory. A caller beyond it resets the counts of all.
const limiterMost = 10_000

// NewLimiter makes a limiter. A caller's own rate replaces perSecond; a negative rate is no bound.
func NewLimiter(perSecond float64) *Limiter {
	return &Limiter{rate: perSecond, by: map[string]*rate.Limiter{}}
}

// Allow counts a request and reports whether it is within its owner's rate.
func (l *Limiter) Allow(identity Identity, r *http.Request) bool {
	perSecond := cmp.Or(identity.Rate, l.rate)
	if perSecond < 0 {
		return true
	}
	name := cmp.Or(identity.Key, hostname(r.RemoteAddr))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.by) >= limiterMost {
		clear(l.by)
	}
	if l.by[name] == nil {
		l.by[name] = rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))
	}
	return l.by[name].Allow()
}
