//go:build linux

package netstack

import (
	"context"
	"maps"
	"slices"
)

// following is an open flow, with the function that ends it.
type following struct {
	flow Flow
	cut  context.CancelFunc
}

// follow registers a flow until the caller calls end. ctx ends earlier with the stack, or when a new policy refuses the
// flow. The caller must call follow before it consults the policy, so that no flow escapes SetPolicy.
func (s *Stack) follow(flow Flow) (ctx context.Context, end func()) {
	ctx, cut := context.WithCancel(s.ctx)
	f := &following{flow, cut}
	s.mu.Lock()
	s.flows[f] = struct{}{}
	s.mu.Unlock()
	return ctx, func() {
		cut()
		s.mu.Lock()
		delete(s.flows, f)
		s.mu.Unlock()
	}
}

// SetPolicy replaces the policy for all later flows of the sandbox. It ends open flows that the new policy refuses, and
// records them as refused.
func (s *Stack) SetPolicy(policy Policy) {
	s.mu.Lock()
	s.policy = policy
	flows := slices.Collect(maps.Keys(s.flows))
	s.mu.Unlock()
	for _, f := range flows {
		if !s.allow(f.flow) {
			f.cut()
		}
	}
}

// allow consults the policy and records a refusal.
func (s *Stack) allow(flow Flow) bool {
	allowed, reason := s.current().Allow(s.ctx, flow)
	if !allowed {
		s.refuse(flow, reason)
	}
	return allowed
}

// refuse records a refusal.
func (s *Stack) refuse(flow Flow, reason string) {
	s.counters.deny(flow, reason)
	if s.denied != nil {
		s.denied()
	}
}

// current returns the current policy.
func (s *Stack) current() Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy
}
