package cli

import (
	"testing"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
)

// Without a terminal, only rare steps are reported.
func TestProgressElsewhere(t *testing.T) {
	streams := iostreams.NewTest()
	app := &App{Streams: streams.Streams}
	report, stop := app.Progress()
	report(core.Progress{Step: "starting the sandbox"})
	report(core.Progress{Step: "building it\x1b[2J again", Rare: true})
	report(core.Progress{Step: "pulling", Done: 1, Total: 2})
	stop()
	if got := streams.Err.String(); got != "building it again ...\n" {
		t.Errorf("reported: %q", got)
	}
}
