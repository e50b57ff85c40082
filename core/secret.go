package core

import (
	"fmt"
	"log/slog"
)

// Redacted replaces the value of a secret in all output.
const Redacted = "[redacted]"

// SecretValue holds a value that must not be shown. Printing and encoding yield "[redacted]"; only Reveal returns the
// value.
type SecretValue struct{ value string }

// NewSecretValue wraps value.
func NewSecretValue(value string) SecretValue { return SecretValue{value} }

// Reveal returns the value. Callers pass it to a sandbox's environment and nowhere else.
func (s SecretValue) Reveal() string { return s.value }

// Empty reports whether there is no value, as in a spec that a provider returned.
func (s SecretValue) Empty() bool { return s.value == "" }

// String implements fmt.Stringer.
func (SecretValue) String() string { return Redacted }

// GoString implements fmt.GoStringer.
func (SecretValue) GoString() string { return Redacted }

// Format implements fmt.Formatter.
func (SecretValue) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue implements slog.LogValuer.
func (SecretValue) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText implements encoding.TextMarshaler.
func (SecretValue) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// Secret is an environment variable with a confidential value. The value never appears in argv, logs, the audit log,
// errors, JSON or on a screen.
type Secret struct {
	// Name is the environment variable.
	Name string `json:"name"`
	// Ref names a secret that the provider stores; Value is then empty.
	Ref string `json:"ref,omitempty"`
	// Value is the secret itself, if the caller supplied it.
	Value SecretValue `json:"-"`
}

// Kept reports whether the provider stores the value.
func (s Secret) Kept() bool { return s.Ref != "" }
