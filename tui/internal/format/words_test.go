package format

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		"  one\ttwo  ":              {"one", "two"},
		`'two words' "and 'these'"`: {"two words", "and 'these'"},
		`a\ b c\'d`:                 {"a b", "c'd"},
		`"a\"b\\c\d" '\'`:           {`a"b\c\d`, `\`},
		`x'y z'"w"`:                 {"xy zw"},
		`'' "" x`:                   {"", "", "x"},
	} {
		got, err := Words(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	for _, text := range []string{`'open`, `"open`, `open\`} {
		if got, err := Words(text); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s is %q, %v", text, got, err)
		}
	}
}

// words is the inverse of quote.
func FuzzQuoteRoundTrip(f *testing.F) {
	f.Add("it's", `a\"b`, "")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{a, b, c}
		if got, err := Words(Quote(want...)); !cmp.Equal(want, got) || err != nil {
			t.Errorf("%q became %q, %v", want, got, err)
		}
	})
}
