//go:build linux

package netstack

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort = 53
	// dnsIdle ends a client's flow without queries.
	dnsIdle = 15 * time.Second
	// dnsTry bounds the wait for one resolver.
	dnsTry = 3 * time.Second
	// maxQuestions bounds a sandbox's concurrent queries. Each query costs a socket and a buffer in this process.
	maxQuestions = 512
)

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// serveDNSOverUDP answers the queries of one flow until it is idle.
func (s *Stack) serveDNSOverUDP(conn net.Conn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	buf := make([]byte, maxDatagram)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(dnsIdle))
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		query := append([]byte(nil), buf[:n]...)
		select {
		case s.asking <- struct{}{}:
		default:
			continue // dropped; resolvers retry
		}
		wg.Go(func() {
			defer func() { <-s.asking }()
			if answer := s.resolve(query, "udp"); answer != nil {
				_, _ = conn.Write(answer)
			}
		})
	}
}

// serveDNSOverTCP answers the queries of one connection in order.
func (s *Stack) serveDNSOverTCP(conn net.Conn) {
	for {
		_ = conn.SetDeadline(time.Now().Add(dnsIdle))
		query, err := readMessage(conn)
		if err != nil {
			return
		}
		select {
		case s.asking <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		answer := s.resolve(query, "tcp")
		<-s.asking
		if answer == nil || writeMessage(conn, answer) != nil {
			return
		}
	}
}

// resolve returns the answer to query, or nil if it is not a query.
func (s *Stack) resolve(query []byte, network string) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	if header.OpCode != 0 { // a resolver that trusts this machine would change a zone for it (RFC 2136)
		return failure(header, nil, dnsmessage.RCodeNotImplemented)
	}
	question, err := parser.Question()
	if err != nil {
		return failure(header, nil, dnsmessage.RCodeFormatError)
	}
	if _, err := parser.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return failure(header, nil, dnsmessage.RCodeFormatError) // the policy would not see a second question
	}
	flow := Flow{
		Proto: DNS, Dst: netip.AddrPortFrom(GatewayAddr(), dnsPort),
		Name: strings.TrimSuffix(question.Name.String(), "."),
	}
	if !s.allow(flow) {
		return failure(header, &question, dnsmessage.RCodeNameError)
	}
	byName := s.current().ByName()
	if byName && question.Type == dnsmessage.TypeA {
		return s.standInFor(header, question, query, network)
	}
	if byName && slices.Contains([]dnsmessage.Type{dnsmessage.TypeAAAA, typeSVCB, typeHTTPS}, question.Type) {
		// The stand-in is the only address of the name. Keys would hide the name that a connection requests.
		return failure(header, &question, dnsmessage.RCodeSuccess)
	}
	answer, err := s.ask(s.ctx, query, network)
	if err != nil {
		return failure(header, &question, dnsmessage.RCodeServerFailure)
	}
	return answer
}

// typeSVCB and typeHTTPS are types of RFC 9460.
const typeSVCB, typeHTTPS dnsmessage.Type = 64, 65

// standInFor answers a query for the addresses of an allowed domain. The answer is the domain's stand-in, unless the
// domain has no addresses or all of its addresses are allowed.
func (s *Stack) standInFor(
	header dnsmessage.Header, question dnsmessage.Question, query []byte, network string,
) []byte {
	answer, err := s.ask(s.ctx, query, network)
	if err != nil {
		return failure(header, &question, dnsmessage.RCodeServerFailure)
	}
	addrs, ttl := addresses(answer)
	policy := s.current()
	byThemselves := !slices.ContainsFunc(addrs, func(addr netip.Addr) bool {
		allowed, _ := policy.Allow(s.ctx, Flow{Proto: TCP, Dst: netip.AddrPortFrom(addr, 0)})
		return !allowed
	})
	if byThemselves {
		return answer
	}
	standIn, ok := s.names.learn(canonical(question.Name.String()), addrs, ttl)
	if !ok {
		return failure(header, &question, dnsmessage.RCodeServerFailure)
	}
	return reply(header, dnsmessage.Message{
		Questions: []dnsmessage.Question{question},
		Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{
				Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: standInTTL,
			},
			Body: &dnsmessage.AResource{A: standIn.As4()},
		}},
	})
}

// standInTTL is in seconds. It is short, so that a sandbox notices changes of the policy early. A stand-in never
// changes.
const standInTTL = 60

// lookup returns the addresses of a name outside, from earlier answers of the resolvers or from a new one.
func (s *Stack) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if addrs := s.names.outside(name); addrs != nil {
		return addrs, nil
	}
	full, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, err
	}
	message := dnsmessage.Message{
		//nolint:gosec // a socket for each question is what keeps others out
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: full, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	query, err := message.Pack()
	if err != nil {
		return nil, err
	}
	answer, err := s.ask(ctx, query, "udp")
	if err != nil {
		return nil, err
	}
	addrs, ttl := addresses(answer)
	if len(addrs) == 0 {
		return nil, errNoAddress
	}
	s.names.learn(name, addrs, ttl)
	return addrs, nil
}

// addresses returns the IPv4 addresses in an answer, and their time to live. It returns none for an invalid answer.
func addresses(answer []byte) (addrs []netip.Addr, ttl time.Duration) {
	var message dnsmessage.Message
	if message.Unpack(answer) != nil {
		return nil, 0
	}
	ttl = maxTTL
	for _, record := range message.Answers {
		if body, ok := record.Body.(*dnsmessage.AResource); ok {
			addrs = append(addrs, netip.AddrFrom4(body.A))
			ttl = min(ttl, time.Duration(record.Header.TTL)*time.Second)
		}
	}
	return addrs, ttl
}

var (
	errNoAddress  = errors.New("the name has no address")
	errNoResolver = errors.New("no resolver answers")
)

// ask queries the resolvers in order and returns the first answer.
func (s *Stack) ask(ctx context.Context, query []byte, network string) ([]byte, error) {
	servers, err := s.resolvers()
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		if answer, err := exchange(ctx, network, server, query); err == nil {
			return answer, nil
		}
	}
	return nil, errNoResolver
}

// exchange queries one server. Each query has its own socket, so that answers cannot be confused.
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
	m := dnsmessage.Message{Header: dnsmessage.Header{RCode: code}}
	if question != nil {
		m.Questions = []dnsmessage.Question{*question}
	}
	return reply(query, m)
}

// reply encodes m as the answer to a query.
func reply(query dnsmessage.Header, m dnsmessage.Message) []byte {
	m.Header = dnsmessage.Header{
		ID: query.ID, Response: true, OpCode: query.OpCode,
		RecursionDesired: query.RecursionDesired, RecursionAvailable: true, RCode: m.RCode,
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
	//nolint:gosec // a message fits
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(message)+2), uint16(len(message)))
	_, err := w.Write(append(framed, message...))
	return err
}
