package core

import (
	"fmt"
	"log/slog"
)

// redacted stands wherever a secret's value would.
const redacted = "[redacted]"

// SecretValue holds a value that must not be shown. Every way of printing or
// encoding it yields "[redacted]"; Reveal is the one way to the value.
type SecretValue struct{ value string }

// NewSecretValue wraps value.
func NewSecretValue(value string) SecretValue { return SecretValue{value} }

// Reveal returns the value. Its callers hand it to a sandbox's environment and nowhere else.
func (s SecretValue) Reveal() string { return s.value }

// Empty says whether there is no value, as in a spec that came back from a provider.
func (s SecretValue) Empty() bool { return s.value == "" }

// String implements fmt.Stringer.
func (SecretValue) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (SecretValue) GoString() string { return redacted }

// Format implements fmt.Formatter.
func (SecretValue) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (SecretValue) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler.
func (SecretValue) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Secret is an environment variable whose value is never shown again: not in
// argv, logs, the audit log, errors, JSON or a screen.
type Secret struct {
	// Name is the environment variable.
	Name string `json:"name"`
	// Ref names a secret that the provider keeps; then Value is empty.
	Ref string `json:"ref,omitempty"`
	// Value is the secret itself when it came from the caller.
	Value SecretValue `json:"-"`
}

// Kept reports whether the provider keeps the value.
func (s Secret) Kept() bool { return s.Ref != "" }
