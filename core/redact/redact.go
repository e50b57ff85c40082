package redact

import (
	"bytes"
	"cmp"
	"io"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// minSecret is the shortest value, in bytes, that is redacted. Shorter ones would match ordinary text.
const minSecret = 4

// Redactor finds secret values in the output of sandboxes. It finds exact values only, not encoded or divided ones. A
// nil Redactor finds nothing. It is safe for concurrent use.
type Redactor struct {
	values [][]byte // longest first
	first  [256]bool
}

// New returns a Redactor for secrets; nil when no value has at least four bytes.
func New(secrets []core.Secret) *Redactor {
	r := &Redactor{}
	for _, secret := range secrets {
		value := []byte(secret.Value.Reveal())
		if len(value) < minSecret || slices.ContainsFunc(r.values, func(v []byte) bool { return bytes.Equal(v, value) }) {
			continue
		}
		r.values = append(r.values, value)
		r.first[value[0]] = true
	}
	if len(r.values) == 0 {
		return nil
	}
	slices.SortStableFunc(r.values, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
	return r
}

// Clean returns text with each value replaced.
func (r *Redactor) Clean(text string) string {
	s := r.Stream()
	return string(append(s.Next([]byte(text)), s.Rest()...))
}

// Stream starts redacting a stream of output.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Stream redacts a stream that arrives in pieces, wherever they are split. It is not safe for concurrent use.
type Stream struct {
	redactor *Redactor
	// held is the end of the input so far, which may be the beginning of a value. Its first shown bytes were already
	// returned.
	held  []byte
	shown int
	found bool
}

// Found reports whether a value was replaced.
func (s *Stream) Found() bool { return s.found }

// Next adds a piece of input and returns the output that is safe to show. A possible beginning of a value is held until
// more input arrives. A single byte is not held, because prompts can end in any character: if a value follows, its
// first byte was shown. The result is valid until the next call.
func (s *Stream) Next(piece []byte) []byte {
	r := s.redactor
	if r == nil || len(s.held) == 0 && !slices.ContainsFunc(piece, func(b byte) bool { return r.first[b] }) {
		return piece
	}
	data := append(s.held, piece...) //nolint:gocritic // held is replaced below
	out := make([]byte, 0, len(data))
	at := 0
	for at < len(data) {
		value, partial := r.match(data[at:])
		if partial {
			break
		}
		switch {
		case value > 0:
			out = append(out, core.Redacted...)
			s.found = true
			at += value
		default:
			if at >= s.shown {
				out = append(out, data[at])
			}
			at++
		}
	}
	s.held, s.shown = slices.Clone(data[at:]), max(s.shown-at, 0)
	if len(s.held) == 1 && s.shown == 0 {
		out, s.shown = append(out, s.held[0]), 1
	}
	return out
}

// Rest ends the stream and returns the held bytes.
func (s *Stream) Rest() []byte {
	if len(s.held) == 0 {
		return nil
	}
	var out []byte
	for at := 0; at < len(s.held); {
		value := 0
		for _, v := range s.redactor.values { // at the end, a value that is a prefix of a longer one counts
			if bytes.HasPrefix(s.held[at:], v) {
				value = len(v)
				break
			}
		}
		switch {
		case value > 0:
			out = append(out, core.Redacted...)
			s.found = true
			at += value
		default:
			if at >= s.shown {
				out = append(out, s.held[at])
			}
			at++
		}
	}
	s.held, s.shown = nil, 0
	return out
}

// match returns the length of the value that data begins with. partial means that data may be the beginning of a value.
func (r *Redactor) match(data []byte) (value int, partial bool) {
	if !r.first[data[0]] {
		return 0, false
	}
	for _, v := range r.values {
		if bytes.HasPrefix(data, v) {
			return len(v), false
		}
		if bytes.HasPrefix(v, data) {
			return 0, true
		}
	}
	return 0, false
}

// Reader returns a reader that redacts stream.
func (r *Redactor) Reader(stream io.Reader) *Reader {
	return &Reader{stream: stream, redacted: r.Stream(), buffer: make([]byte, 32<<10)}
}

// Reader reads a stream and replaces the values of secrets.
type Reader struct {
	stream   io.Reader
	redacted *Stream
	buffer   []byte
	ready    []byte
	err      error
}

// Found reports whether the input so far had a value that was replaced.
func (r *Reader) Found() bool { return r.redacted.Found() }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.stream.Read(r.buffer)
		r.ready = r.redacted.Next(r.buffer[:n])
		if r.err != nil {
			r.ready = append(bytes.Clone(r.ready), r.redacted.Rest()...)
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}
