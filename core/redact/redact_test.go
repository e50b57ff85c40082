package redact

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-0724f904/sb/core"
)

func secretsFor(values ...string) []core.Secret {
	var secrets []core.Secret
	for _, value := range values {
		secrets = append(secrets, core.Secret{Name: "S", Value: core.NewSecretValue(value)})
	}
	return secrets
}

// Values are found wherever the stream is split.
func TestRedactorFindsValuesInPieces(t *testing.T) {
	r := New(secretsFor("hunter2", "hunter2-long", "abcabd", "key"))
	const text = "a hunter2 b hunter2-long c hunter2-lo abcabcabd hunter"
	const want = "a [redacted] b [redacted] c [redacted]-lo abc[redacted] hunter"
	if got := r.Clean(text); got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	for size := 2; size < len(text); size++ {
		var got []byte
		s := r.Stream()
		for at := 0; at < len(text); at += size {
			got = append(got, s.Next([]byte(text[at:min(at+size, len(text))]))...)
		}
		got = append(got, s.Rest()...)
		// A split after a value's first character shows that character.
		if plain := strings.NewReplacer("h[redacted]", "[redacted]", "a[redacted]", "[redacted]").
			Replace(string(got)); plain != want || !s.Found() {
			t.Errorf("pieces of %d: %q", size, got)
		}
	}
	read, err := io.ReadAll(r.Reader(iotest.HalfReader(strings.NewReader(text))))
	if err != nil || strings.Contains(string(read), "hunter2") {
		t.Errorf("read %q, %v", read, err)
	}
}

// The first character of a value is shown at once, and the rest of the value is still found.
func TestRedactorShowsALoneCharacter(t *testing.T) {
	s := New(secretsFor("hunter2")).Stream()
	if got := s.Next([]byte("prompt h")); string(got) != "prompt h" {
		t.Errorf("it holds back: %q", got)
	}
	if got := s.Next([]byte("unter2 ok")); string(got) != "[redacted] ok" {
		t.Errorf("then %q", got)
	}
	if got := s.Next([]byte("hu")); string(got) != "" {
		t.Errorf("two characters are shown: %q", got)
	}
	if got := s.Next([]byte("ge")); string(got) != "huge" {
		t.Errorf("text without a secret is lost: %q", got)
	}
	_ = s.Next([]byte("hunt"))
	if got := s.Rest(); string(got) != "hunt" {
		t.Errorf("the end is lost: %q", got)
	}
}

func TestNothingToRedact(t *testing.T) {
	for _, r := range []*Redactor{nil, New(nil), New(secretsFor("", "abc"))} {
		if got := r.Clean("abc text"); got != "abc text" {
			t.Errorf("%q", got)
		}
	}
}

// However a stream is split, everything but values is shown and no value is.
func FuzzRedactor(f *testing.F) {
	f.Add("value", "a value in a valve", uint8(3))
	f.Add("aaab", "aaaaaaabaaab", uint8(1))
	f.Fuzz(func(t *testing.T, value, text string, size uint8) {
		r := New(secretsFor(value))
		if r == nil || overlaps(value) || size == 0 {
			return
		}
		s := r.Stream()
		var got []byte
		for data := []byte(text); len(data) > 0; {
			n := min(int(size), len(data))
			got = append(got, s.Next(data[:n])...)
			data = data[n:]
		}
		got = append(got, s.Rest()...)
		if !strings.Contains(text, value) && !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q became %q", text, got)
		}
		if strings.Contains(text, value) && !s.Found() {
			t.Errorf("%q was not found in %q", value, text)
		}
	})
}

// overlaps reports whether the replacement text could complete a value.
func overlaps(value string) bool {
	shown := "[" + core.Redacted + "]"
	return strings.Contains(shown, value)
}
