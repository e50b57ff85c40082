package core

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// minSecret is the length in bytes below which a value is no secret but a word of its own.
const minSecret = 4

// Redactor finds the values of secrets in what sandboxes write. It finds them as they were given: an encoded
// or divided value is another text. A nil Redactor finds nothing. It is safe for concurrent use.
type Redactor struct {
	values [][]byte // longest first
	first  [256]bool
}

// NewRedactor finds the values of secrets; nil when none has one of at least four bytes.
func NewRedactor(secrets []Secret) *Redactor {
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

// Stream begins a stream of output.
func (r *Redactor) Stream() *RedactedStream { return &RedactedStream{redactor: r} }

// RedactedStream redacts a stream that comes in pieces, wherever they are cut. It is for one goroutine.
type RedactedStream struct {
	redactor *Redactor
	// held is the end of what came: it may be the beginning of a value. Its first shown bytes were returned already.
	held  []byte
	shown int
	found bool
}

// Found says whether a value was replaced.
func (s *RedactedStream) Found() bool { return s.found }

// Next takes the next piece and returns what can be shown now. What may be the beginning of a value is held back
// until more comes; one byte alone is not, for prompts end in any character: if a value follows, that byte was shown.
// The result is valid until the next call.
func (s *RedactedStream) Next(piece []byte) []byte {
	r := s.redactor
	if r == nil || len(s.held) == 0 && !slices.ContainsFunc(piece, func(b byte) bool { return r.first[b] }) {
		return piece
	}
	data := append(s.held, piece...) //nolint:gocritic // held is made anew below
	out := make([]byte, 0, len(data))
	at := 0
	for at < len(data) {
		value, partial := r.match(data[at:])
		if partial {
			break
		}
		switch {
		case value > 0:
			out = append(out, redacted...)
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

// Rest ends the stream and returns what was held back.
func (s *RedactedStream) Rest() []byte {
	if len(s.held) == 0 {
		return nil
	}
	var out []byte
	for at := 0; at < len(s.held); {
		value := 0
		for _, v := range s.redactor.values { // here a value that is the beginning of a longer one counts
			if bytes.HasPrefix(s.held[at:], v) {
				value = len(v)
				break
			}
		}
		switch {
		case value > 0:
			out = append(out, redacted...)
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

// match says how long the value is that data begins with; partial, that data may be the beginning of one.
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

// Reader redacts what is read from stream.
func (r *Redactor) Reader(stream io.Reader) *RedactedReader {
	return &RedactedReader{stream: stream, redacted: r.Stream(), buffer: make([]byte, 32<<10)}
}

// RedactedReader is a reader without the values of secrets.
type RedactedReader struct {
	stream   io.Reader
	redacted *RedactedStream
	buffer   []byte
	ready    []byte
	err      error
}

// Found says whether a value was replaced in what was read so far.
func (r *RedactedReader) Found() bool { return r.redacted.Found() }

// Read implements io.Reader.
func (r *RedactedReader) Read(p []byte) (int, error) {
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
