package output

import (
	"fmt"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Span writes a length of time in its largest unit, as in tables: "42s", "7m", "3h", "12d".
// Negative spans are written as "0s".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// Age writes how long before now t was; "-" for the zero time.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Span(now.Sub(t))
}

// Elapsed writes how long something took with a useful precision: "8ms", "1.25s", "3m12s".
func Elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Used writes an amount with its limit: "12MiB / 512MiB", or the amount alone without one.
func Used(amount, limit core.Bytes) string {
	if limit == 0 {
		return amount.String()
	}
	return amount.String() + " / " + limit.String()
}
