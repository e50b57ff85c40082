package docker

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Root inside writes an entry into the journal. The entry is listed as damaged, without its claims, while the sandbox
// runs and after it stopped. The next command has the next number.
func TestForgedJournal(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		id := box(t, p, func(spec *core.Spec) { spec.Persist = true }).ID
		sh(t, p, id, "true")
		out, code := sh(t, p, id, `cd /.sb-*/journal || exit 9
			for n in 7 999999999999999999; do
				printf '{"id":"%d","sandbox":"x","command":["rm"],"actor":"cli","started":"2026-01-02T00:00:00Z"}' $n > $n.json
			done`)
		if code != 0 {
			t.Fatalf("root inside cannot write to the journal: %s", out)
		}
		check := func(when string, want ...string) {
			t.Helper()
			execs, err := p.Execs(t.Context(), id)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			var ids []string
			for _, exec := range execs {
				ids = append(ids, exec.ID)
				forged := exec.ID == "7" || len(exec.ID) > 1
				if forged != exec.Damaged() || forged && (exec.Command != nil || exec.Actor != "") {
					t.Errorf("%s: command %s is %+v", when, exec.ID, exec)
				}
			}
			if !slices.Equal(ids, want) {
				t.Errorf("%s: the commands are %q, want %q", when, ids, want)
			}
		}
		check("running", "1", "2", "7", "999999999999999999")
		if err := p.Stop(t.Context(), id, time.Second); err != nil {
			t.Fatal(err)
		}
		check("stopped", "1", "2", "7", "999999999999999999")
		if _, err := p.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		sh(t, p, id, "true")
		check("started", "1", "2", "3", "7", "999999999999999999")
	})
}
