package clitest

import (
	"os"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Now is the clock of all tests.
func Now() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) }

// New makes an App. A call of its service fails the test.
func New(t *testing.T, env map[string]string) (*cli.App, *iostreams.Test) {
	t.Helper()
	streams := iostreams.NewTest()
	return &cli.App{
		Streams: streams.Streams,
		Signals: cli.SignalsFrom(make(chan os.Signal)),
		LookupEnv: func(key string) (string, bool) {
			value, ok := env[key]
			return value, ok
		},
		Now: Now,
		Service: func() (*service.Service, error) {
			return nil, core.Errorf(core.KindUsage, "config", "config.yaml", "broken configuration")
		},
	}, streams
}
