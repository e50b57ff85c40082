//go:build linux

package supervisor

import (
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/netstack"
)

// tellPause is how long refusals are gathered before the state tells of them: who watches gets few events of a flood.
const tellPause = 250 * time.Millisecond

// denials are what the network policy refused, the latest first.
func (s *Supervisor) denials() []core.Denial {
	var list []core.Denial
	for _, d := range slices.Backward(s.stack.Denials()) {
		list = append(list, denial(d))
	}
	return list
}

func denial(d netstack.Denial) core.Denial {
	told := core.Denial{Time: d.Time, Protocol: string(d.Flow.Proto), Name: d.Flow.Name, Why: d.Reason, Count: d.Count}
	if d.Flow.Proto != netstack.DNS {
		told.Address, told.Port = d.Flow.Dst.Addr().String(), int(d.Flow.Dst.Port())
	}
	return told
}

// noteDenial makes the state tell of refusals soon.
func (s *Supervisor) noteDenial() {
	s.mu.Lock()
	first := s.tellAt.IsZero()
	if first {
		s.tellAt = time.Now().Add(tellPause)
	}
	s.mu.Unlock()
	if first {
		s.wake()
	}
}

// tellDenials writes to the state how many refusals there were and the latest. The caller holds mu.
func (s *Supervisor) tellDenials() {
	s.tellAt = time.Time{}
	s.state.Denied = int(s.stack.Stats().Denied)
	if all := s.stack.Denials(); len(all) > 0 {
		latest := denial(all[len(all)-1])
		s.state.Denial = &latest
	}
	if err := s.saveLocked(false); err != nil {
		s.log.Error("the state could not be written", "error", err)
	}
}
