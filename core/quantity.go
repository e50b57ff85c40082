package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is an amount of memory or storage. Its text is a number with an optional unit: "512MiB", "1.5G", "100MB". K, M,
// G and T alone are binary, as in Docker.
type Bytes int64

// The binary units.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// ParseBytes parses the text of Bytes. Negative, non-finite and overflowing amounts are errors of KindUsage.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	cut := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:cut], strings.ToLower(strings.TrimSpace(text[cut:]))
	scale, ok := byteUnit(unit)
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || math.IsNaN(value) || math.IsInf(value, 0) || value < 0 ||
		strings.ContainsAny(number, "xXpP_") {
		return 0, Errorf(KindUsage, "parse", s, "not a size").WithHint("write a number with a unit, such as 512MiB or 2G")
	}
	if value*scale >= math.MaxInt64 {
		return 0, Errorf(KindUsage, "parse", s, "size is too large")
	}
	return Bytes(value * scale), nil
}

func byteUnit(unit string) (scale float64, ok bool) {
	switch unit {
	case "", "b":
		return 1, true
	case "k", "ki", "kib":
		return 1 << 10, true
	case "m", "mi", "mib":
		return 1 << 20, true
	case "g", "gi", "gib":
		return 1 << 30, true
	case "t", "ti", "tib":
		return 1 << 40, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	}
	return 0, false
}

// String returns the amount in the largest binary unit that keeps it short: "512MiB", "1.5GiB".
func (b Bytes) String() string {
	for _, u := range []struct {
		size Bytes
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if b >= u.size || b <= -u.size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(b)/float64(u.size), 'f', 1, 64), ".0") + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Exact returns the amount without loss, in the largest unit that ParseBytes reads back. String may round.
func (b Bytes) Exact() string {
	text := b.String()
	if same, err := ParseBytes(text); err == nil && same == b {
		return text
	}
	switch {
	case b%MiB == 0:
		return strconv.FormatInt(int64(b/MiB), 10) + "MiB"
	case b%KiB == 0:
		return strconv.FormatInt(int64(b/KiB), 10) + "KiB"
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalJSON writes a plain number of bytes, which programs need.
func (b Bytes) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

// UnmarshalJSON accepts a number of bytes or a string for ParseBytes.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	v, err := ParseBytes(strings.Trim(string(data), `"`))
	if err == nil {
		*b = v
	}
	return err
}

// Duration is a time.Duration with a text form for files: "90s", "2h30m". A plain number is seconds.
type Duration time.Duration

// NoTimeout means no lifetime or idle limit, while 0 means the default. Its text is "none".
const NoTimeout Duration = -1

const noTimeoutText = "none"

// ParseTimeout parses a lifetime or idle time: a duration for ParseDuration, or "none" or 0 for NoTimeout.
func ParseTimeout(s string) (Duration, error) {
	if strings.TrimSpace(s) == noTimeoutText {
		return NoTimeout, nil
	}
	d, err := ParseDuration(s)
	if err == nil && d == 0 {
		return NoTimeout, nil
	}
	return d, err
}

// ParseDuration parses the text of Duration. Negative durations are errors of KindUsage.
func ParseDuration(s string) (Duration, error) {
	text := strings.TrimSpace(s)
	if n, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXpP_") {
		if seconds := n * float64(time.Second); n >= 0 && seconds < math.MaxInt64 {
			return Duration(seconds), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return Duration(d), nil
	}
	return 0, Errorf(KindUsage, "parse", s, "not a duration").
		WithHint("write a number with a unit, such as 90s, 15m or 2h")
}

// String returns the duration without trailing zero units: "2h", "1m30s".
func (d Duration) String() string {
	if d == NoTimeout {
		return noTimeoutText
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON accepts a string for ParseDuration, a number of seconds, or the text of NoTimeout.
func (d *Duration) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == noTimeoutText {
		*d = NoTimeout
		return nil
	}
	v, err := ParseDuration(text)
	if err == nil {
		*d = v
	}
	return err
}

// GPU requests Count accelerators of one type. The zero value requests none. Its text is "TYPE" or "TYPE:COUNT":
// "H100", "A100-80GB:4".
type GPU struct {
	Type  string
	Count int
}

// ParseGPU parses the text of GPU and converts the type to upper case. The provider decides whether the type exists.
func ParseGPU(s string) (GPU, error) {
	if s == "" {
		return GPU{}, nil
	}
	name, count, counted := strings.Cut(s, ":")
	g := GPU{Type: strings.ToUpper(strings.TrimSpace(name)), Count: 1}
	if counted {
		n, err := strconv.Atoi(count)
		if err != nil {
			n = 0
		}
		g.Count = n
	}
	if g.Type == "" || g.Count < 1 || g.Count > 64 {
		return GPU{}, Errorf(KindUsage, "parse", s, "not a GPU request").
			WithHint("write TYPE or TYPE:COUNT, such as H100 or A100-80GB:4")
	}
	return g, nil
}

// String returns text for ParseGPU.
func (g GPU) String() string {
	switch {
	case g.Type == "":
		return ""
	case g.Count == 1:
		return g.Type
	}
	return fmt.Sprintf("%s:%d", g.Type, g.Count)
}

// MarshalText implements encoding.TextMarshaler.
func (g GPU) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GPU) UnmarshalText(text []byte) error {
	v, err := ParseGPU(string(text))
	if err == nil {
		*g = v
	}
	return err
}

// IsZero reports whether no GPU is requested; JSON then omits the field.
func (g GPU) IsZero() bool { return g == GPU{} }
