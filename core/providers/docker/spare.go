package docker

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// spareAge is the time for which a call is kept for the next request: a copy reads the state of its target, then writes
// it. An exec of the engine is the largest cost of a small copy.
const spareAge = time.Second

// spare is a call of a sandbox that waits for its next request.
type spare struct {
	call  *call
	timer *time.Timer
}

// keep keeps a call for spareAge. It closes calls that are cheap to open.
func (p *Provider) keep(c *call) {
	if _, costly := c.line.(*engineLine); !costly {
		c.close()
		return
	}
	p.spareMu.Lock()
	defer p.spareMu.Unlock()
	if p.spares[c.id] != nil || p.closed {
		c.close()
		return
	}
	s := &spare{call: c}
	s.timer = time.AfterFunc(spareAge, func() {
		p.spareMu.Lock()
		if p.spares[c.id] == s {
			delete(p.spares, c.id)
		}
		p.spareMu.Unlock()
		c.close()
	})
	p.spares[c.id] = s
}

// spare makes a request on a kept call. It returns nil if there is no such call, or if the sandbox no longer confirms
// requests on it. The request may have started even then, so it must be safe to repeat.
func (p *Provider) spare(ctx context.Context, id, op string, request wire.Request) (*call, error) {
	p.spareMu.Lock()
	s := p.spares[id]
	delete(p.spares, id)
	p.spareMu.Unlock()
	if s == nil || !s.timer.Stop() {
		return nil, nil //nolint:nilnil // a spare is optional
	}
	c := s.call
	k, err := p.knownOf(ctx, id)
	if err != nil {
		c.close()
		return nil, err
	}
	payload, err := request.Sign(k.key)
	if err != nil {
		c.close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(directTimeout))
	_, err = c.Write(wire.AppendFrame(nil, wire.FrameRequest, payload))
	if err == nil {
		var kind byte
		if kind, _, err = wire.ReadFrame(c, nil); err == nil && kind != wire.FrameRequestAck {
			err = wire.ErrFrame
		}
	}
	if err != nil {
		c.close()
		return nil, nil //nolint:nilnil // as above
	}
	_ = c.SetReadDeadline(time.Time{})
	c.op = op
	return c, nil
}

// closeSpares closes the kept calls.
func (p *Provider) closeSpares() {
	p.spareMu.Lock()
	defer p.spareMu.Unlock()
	p.closed = true
	for id, s := range p.spares {
		delete(p.spares, id)
		if s.timer.Stop() {
			s.call.close()
		}
	}
}
