package core

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Kind classifies errors by how the caller can handle them. Frontends switch on the kind only.
//
// A Kind is an error only so that errors.Is can test for it: errors.Is(err, KindNotFound). Return an *Error instead.
// KindOf also classifies errors of the standard library.
type Kind int

const (
	// KindInternal is a bug or an unclassified failure.
	KindInternal Kind = iota
	// KindUsage is bad input: the same call can never succeed.
	KindUsage
	// KindNotFound means that the sandbox, exec, file or name does not exist.
	KindNotFound
	// KindConflict means that the subject exists already or is in the wrong state.
	KindConflict
	// KindUnsupported means that this provider cannot do it.
	KindUnsupported
	// KindUnavailable means that the provider cannot be reached or is not set up.
	KindUnavailable
	// KindUnauthorized means missing or refused credentials or permissions.
	KindUnauthorized
	// KindTimeout means that a time limit ended the operation.
	KindTimeout
	// KindCanceled means that the caller ended the operation.
	KindCanceled
	// KindExhausted means that a quota or a resource (disk, memory, processes) ran out.
	KindExhausted
)

//nolint:gochecknoglobals // a constant table
var kindNames = [...]string{
	KindInternal:     "internal",
	KindUsage:        "usage",
	KindNotFound:     "not_found",
	KindConflict:     "conflict",
	KindUnsupported:  "unsupported",
	KindUnavailable:  "unavailable",
	KindUnauthorized: "unauthorized",
	KindTimeout:      "timeout",
	KindCanceled:     "canceled",
	KindExhausted:    "exhausted",
}

// Kinds lists the kinds.
func Kinds() []Kind {
	kinds := make([]Kind, len(kindNames))
	for k := range kindNames {
		kinds[k] = Kind(k)
	}
	return kinds
}

// String returns the kind's stable snake_case name, as it appears in JSON.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "internal"
	}
	return kindNames[k]
}

// Error is String.
func (k Kind) Error() string { return k.String() }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKind is the inverse of Kind.String; unknown names are KindInternal.
func ParseKind(s string) Kind {
	for k, name := range kindNames {
		if name == s {
			return Kind(k)
		}
	}
	return KindInternal
}

// Error is the only error type that frontends inspect. It never contains a secret. It has one kind: an Error in its
// cause does not add another. Therefore it has Is and As in place of Unwrap.
type Error struct {
	Kind Kind
	// Op is the operation, as "provider.verb" or "verb": "local.launch".
	Op string
	// Subject is the object of the operation: a sandbox reference, a path, a flag.
	Subject string
	// Hint is one sentence with the next step, or "".
	Hint string
	// Err is the cause; its text is the message.
	Err error
}

// Error returns "subject: cause". Frontends show Op and Hint separately.
func (e *Error) Error() string {
	msg := e.Kind.String()
	if e.Err != nil {
		msg = e.Err.Error()
	}
	if e.Subject == "" || mentions(msg, e.Subject) {
		return msg
	}
	return e.Subject + ": " + msg
}

// mentions reports whether text contains subject as a separate word, not as a part of a longer one.
func mentions(text, subject string) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; ; {
		found := strings.Index(text[at:], subject)
		if found < 0 {
			return false
		}
		at += found
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(subject):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		at += len(subject)
	}
}

// Is reports whether target is e's kind, or for any other target, whether the cause is target.
func (e *Error) Is(target error) bool {
	if kind, ok := target.(Kind); ok {
		return e.Kind == kind
	}
	return errors.Is(e.Err, target)
}

// As is errors.As for the cause.
func (e *Error) As(target any) bool { return errors.As(e.Err, target) }

// NotSetUp is the cause in an error of Provider.Check where a requirement is absent: no engine was found, or there are
// no credentials. An engine that is down or refuses the connection is not NotSetUp.
type NotSetUp string

func (e NotSetUp) Error() string { return string(e) }

// Errorf returns an Error of kind k with a cause formatted as by fmt.Errorf.
func Errorf(k Kind, op, subject, format string, args ...any) *Error {
	return &Error{Kind: k, Op: op, Subject: subject, Err: fmt.Errorf(format, args...)}
}

// WithHint sets the hint and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Wrap adds an operation and a subject to err and keeps its kind and hint. It returns nil for nil. For joined errors,
// the first one sets the kind and the text has all of them.
func Wrap(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		wrapped := *e
		if _, joined := err.(interface{ Unwrap() []error }); joined {
			wrapped.Err = err
		}
		if wrapped.Op == "" {
			wrapped.Op = op
		}
		if wrapped.Subject == "" {
			wrapped.Subject = subject
		}
		return &wrapped
	}
	return &Error{Kind: KindOf(err), Op: op, Subject: subject, Err: err}
}

// KindOf classifies any error, including those of the standard library, for code that needs the kind itself.
// KindOf(nil) is KindInternal. To test for one kind, use errors.Is.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.Is(err, fs.ErrNotExist):
		return KindNotFound
	case errors.Is(err, fs.ErrExist):
		return KindConflict
	case errors.Is(err, fs.ErrPermission):
		return KindUnauthorized
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return KindExhausted
	}
	return KindInternal
}

// HintOf returns the hint that err carries, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}
