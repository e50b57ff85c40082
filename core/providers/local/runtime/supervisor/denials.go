//go:build linux

package supervisor

import (
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/netstack"
)

// reportInterval is the time to collect refusals before they are written to the state. So a flood causes few events.
const reportInterval = 250 * time.Millisecond

// denials returns the refusals of the network policy, the latest first.
func (s *Supervisor) denials() []core.Denial {
	var list []core.Denial
	for _, d := range slices.Backward(s.stack.Denials()) {
		list = append(list, denial(d))
	}
	return list
}

func denial(d netstack.Denial) core.Denial {
	denial := core.Denial{Time: d.Time, Protocol: string(d.Flow.Proto), Name: d.Flow.Name, Why: d.Reason, Count: d.Count}
	if d.Flow.Proto != netstack.DNS {
		denial.Address, denial.Port = d.Flow.Dst.Addr().String(), int(d.Flow.Dst.Port())
	}
	return denial
}

// noteDenial schedules a write of refusals to the state.
func (s *Supervisor) noteDenial() {
	s.mu.Lock()
	first := s.reportAt.IsZero()
	if first {
		s.reportAt = time.Now().Add(reportInterval)
	}
	s.mu.Unlock()
	if first {
		s.wake()
	}
}

// reportDenials writes the number of refusals and the latest one to the state. The caller holds mu.
func (s *Supervisor) reportDenials() {
	s.reportAt = time.Time{}
	s.state.Denied = int(s.stack.Stats().Denied)
	if all := s.stack.Denials(); len(all) > 0 {
		latest := denial(all[len(all)-1])
		s.state.Denial = &latest
	}
	if err := s.saveLocked(false); err != nil {
		s.log.Error("the state could not be written", "error", err)
	}
}
