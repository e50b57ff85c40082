//go:build linux

package netstack

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// only is a policy that allows one kind of flow.
func only(proto Proto) Policy {
	return policyFunc(func(f Flow) (bool, string) { return f.Proto == proto, "it is not " + string(proto) })
}

func TestSetPolicyClosesRefusedFlows(t *testing.T) {
	s, in := connect(t, policyFunc(allowAll))
	cut := make(chan struct{})
	tcp, err := in.dial(t.Context(), listen(t, func(c net.Conn) { echo(c); close(cut) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buffer[:n], from)
		}
	})
	defer wg.Wait()
	defer func() { _ = server.Close() }()
	udp := in.dialUDP(t, outside(server.LocalAddr()))
	answers := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "hello")
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := io.ReadFull(c, make([]byte, 5))
		return err == nil && n == 5
	}
	if !answers(tcp) || !answers(udp) {
		t.Fatal("the way is not open")
	}

	s.SetPolicy(only(UDP))
	if !answers(udp) {
		t.Error("an allowed connection was cut")
	}
	if _, err := tcp.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a refused connection ends with %v, like a closed one", err)
	}
	select {
	case <-cut:
	case <-time.After(time.Minute):
		t.Error("the other side is still connected")
	}
	if _, err := in.dial(t.Context(), listen(t, echo)); err == nil {
		t.Error("a refused flow connects again")
	}
	denials := s.Denials()
	if len(denials) != 2 || denials[0].Flow.Proto != TCP || denials[0].Reason != "it is not udp" {
		t.Errorf("the refusals are %+v", denials)
	}

	s.SetPolicy(only(TCP))
	if again, err := in.dial(t.Context(), listen(t, echo)); err != nil {
		t.Errorf("allowed again: %v", err)
	} else {
		if !answers(again) {
			t.Error("a server that is allowed again does not answer")
		}
		_ = again.Close()
	}
	_, _ = io.WriteString(udp, "hello")
	_ = udp.SetReadDeadline(time.Now().Add(time.Second))
	if n, err := udp.Read(make([]byte, 5)); err == nil {
		t.Errorf("a refused connection brings %d bytes", n)
	}
}

// A flow whose decision is pending when the policy changes does not escape the new policy.
func TestSetPolicyDuringDecision(t *testing.T) {
	var s *Stack
	ready := make(chan struct{})
	policy := policyFunc(func(Flow) (bool, string) {
		select {
		case <-ready:
		case <-t.Context().Done():
		}
		s.SetPolicy(only(UDP)) // after the old one was asked, before it has answered
		return true, ""
	})
	s, in := connect(t, policy)
	close(ready)
	c, err := in.dial(t.Context(), listen(t, echo))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, "x")
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("it slipped through")
	}
}

// A sandbox must not leave its supervisor without descriptors.
func TestBoundsLeaveFilesOpen(t *testing.T) {
	for _, files := range []uint64{64, 256, 1024, 4096, 1 << 20, unix.RLIM_INFINITY} {
		flows, questions := bounds(files)
		if flows < 1 || questions < 1 || flows > maxFlows || questions > maxQuestions ||
			uint64(2*flows+questions) > files*2/3 {
			t.Errorf("of %d files %d flows of each kind and %d questions", files, flows, questions)
		}
	}
}
