package mcp

import (
	"cmp"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// limiter bounds how many requests a second each owner makes. Callers whom nobody knows share one bound for each address.
type limiter struct {
	rate float64 // negative is no bound

	mu sync.Mutex
	by map[string]*rate.Limiter
}

// limiterMost is how many owners are remembered; beyond that all begin anew.
const limiterMost = 10_000

func newLimiter(perSecond float64) *limiter {
	return &limiter{rate: perSecond, by: map[string]*rate.Limiter{}}
}

func (l *limiter) allow(who Identity, r *http.Request) bool {
	perSecond := cmp.Or(who.Rate, l.rate)
	if perSecond < 0 {
		return true
	}
	name := cmp.Or(who.Key, hostname(r.RemoteAddr))
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
