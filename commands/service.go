package commands

import (
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// actor is how the shell frontend is named in leases and in the audit log.
const actor = "cli"

// newApp wires the real dependencies. The caller calls closeApp at the end.
func newApp(process Process) (app *App, closeApp func()) {
	app = &App{
		Streams: process.Streams, Signals: process.Signals, Build: process.Build,
		LookupEnv: process.LookupEnv, Now: time.Now,
	}
	var opened *core.Service
	app.Service = sync.OnceValues(func() (*core.Service, error) {
		opened = core.New(core.Options{Actor: actor})
		return opened, nil
	})
	return app, func() {
		if opened != nil {
			_ = opened.Close()
		}
	}
}
