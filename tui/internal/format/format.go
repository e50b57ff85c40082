package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

const day = 24 * time.Hour

// Span formats a duration in its two largest units: "42s", "7m05s", "3h20m", "12d04h".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// Since formats the span from t to now; "" for the zero time.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Span(now.Sub(t))
}

// Used formats an amount and its limit: "3 MiB of 1 GiB". Limit 0 is no limit.
func Used(amount, limit core.Bytes) string {
	if limit == 0 {
		return amount.String()
	}
	return amount.String() + " of " + limit.String()
}

// Short formats a size in at most five cells: "812B", "12M", "1.5G".
func Short(b core.Bytes) string {
	for _, u := range []struct {
		size core.Bytes
		name string
	}{{core.TiB, "T"}, {core.GiB, "G"}, {core.MiB, "M"}, {core.KiB, "K"}} {
		if b >= u.size {
			value := float64(b) / float64(u.size)
			if value < 10 {
				return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + u.name
			}
			return strconv.FormatFloat(value, 'f', 0, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Quote formats argv as a shell command line.
func Quote(argv ...string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		if words[i] = arg; arg == "" || strings.ContainsFunc(arg, unsafeInShell) {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func unsafeInShell(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=,@%+", r)
}

// Plural formats a count: "1 sandbox" or "3 sandboxes".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
