//go:build linux

package netstack

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort = 53
	// dnsIdle ends a client's flow that asks nothing.
	dnsIdle = 15 * time.Second
	// dnsTry bounds the wait for one resolver.
	dnsTry = 3 * time.Second
	// maxQuestions bounds what one flow asks at the same time.
	maxQuestions = 64
)

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// serveDNSOverUDP answers the questions of one flow until it falls silent.
func (s *Stack) serveDNSOverUDP(conn net.Conn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, maxQuestions)
	buf := make([]byte, maxDatagram)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(dnsIdle))
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		query := append([]byte(nil), buf[:n]...)
		select {
		case free <- struct{}{}:
		default:
			continue // dropped; resolvers ask again
		}
		wg.Go(func() {
			defer func() { <-free }()
			if answer := s.resolve(query, "udp"); answer != nil {
				_, _ = conn.Write(answer)
			}
		})
	}
}

// serveDNSOverTCP answers the questions of one connection in turn.
func (s *Stack) serveDNSOverTCP(conn net.Conn) {
	for {
		_ = conn.SetDeadline(time.Now().Add(dnsIdle))
		query, err := readMessage(conn)
		if err != nil {
			return
		}
		answer := s.resolve(query, "tcp")
		if answer == nil || writeMessage(conn, answer) != nil {
			return
		}
	}
}

// resolve returns the answer to query, or nil when it is not a question.
func (s *Stack) resolve(query []byte, network string) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return failure(header, nil, dnsmessage.RCodeFormatError)
	}
	flow := Flow{
		Proto: DNS, Dst: netip.AddrPortFrom(GatewayAddr(), dnsPort),
		Name: strings.TrimSuffix(question.Name.String(), "."),
	}
	if !s.allow(flow) {
		return failure(header, &question, dnsmessage.RCodeNameError)
	}
	servers, err := s.resolvers()
	if err != nil {
		return failure(header, &question, dnsmessage.RCodeServerFailure)
	}
	for _, server := range servers {
		answer, err := exchange(s.ctx, network, server, query)
		if err == nil {
			if learner, ok := s.current().(Learner); ok {
				learner.Learn(answer)
			}
			return answer
		}
	}
	return failure(header, &question, dnsmessage.RCodeServerFailure)
}

// exchange asks one server. A socket for each question keeps answers from being mixed up.
func exchange(ctx context.Context, network string, server netip.AddrPort, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTry)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		if err := writeMessage(conn, query); err != nil {
			return nil, err
		}
		return readMessage(conn)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, maxDatagram)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		if n >= 2 && [2]byte(buf) == [2]byte(query) {
			return buf[:n], nil
		}
	}
}

func failure(query dnsmessage.Header, question *dnsmessage.Question, code dnsmessage.RCode) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{
		ID: query.ID, Response: true, OpCode: query.OpCode,
		RecursionDesired: query.RecursionDesired, RecursionAvailable: true, RCode: code,
	}}
	if question != nil {
		m.Questions = []dnsmessage.Question{*question}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

func writeMessage(w io.Writer, message []byte) error {
	if len(message) > 1<<16-1 {
		return io.ErrShortWrite
	}
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(message)+2), uint16(len(message))) //nolint:gosec // a message fits
	_, err := w.Write(append(framed, message...))
	return err
}
