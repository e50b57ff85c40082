package docker

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// spareAge is how long a call is kept for what follows: a copy asks what its target is, then writes it. An exec of the
// engine costs more than all else of a small copy.
const spareAge = time.Second

// spare is a call of a sandbox that waits for its next request.
type spare struct {
	call  *call
	timer *time.Timer
}

// keep keeps a call for spareAge. Those that cost little are closed.
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

// spare makes a request on a call that was kept. It returns nil when there is no such call, or when the sandbox no
// longer confirms requests on it. The request may have started even then, so it must be safe to repeat.
func (p *Provider) spare(ctx context.Context, id, op string, request wire.Request) (*call, error) {
	p.spareMu.Lock()
	s := p.spares[id]
	delete(p.spares, id)
	p.spareMu.Unlock()
	if s == nil || !s.timer.Stop() {
		return nil, nil //nolint:nilnil // none is no error
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

// closeSpares closes the calls that are kept.
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
