package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/theme"
)

// panickingChild is the environment variable that turns this test program into a dashboard that panics.
const panickingChild = "SB_TUI_PANICKING_CHILD"

// runPanickingChild returns 7 if Run reports the panic of an effect, else 1.
func runPanickingChild() int {
	svc := service.New(service.Options{Factories: []core.Factory{fake.New(fake.Options{}).Factory()}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	input, typing := io.Pipe()
	defer typing.Close()
	drawn := &watchedWriter{Writer: os.Stdout, drawn: make(chan struct{})}
	go func() {
		select {
		case <-drawn.drawn:
		case <-ctx.Done():
			return
		}
		_, _ = typing.Write([]byte{'L'}) // the form asks for templates
	}()
	templates := func() ([]Template, error) { panic("a bug") }
	err := Run(ctx, Options{
		Service: svc, Input: input, Output: drawn, Mouse: true, Theme: theme.Dark, Templates: templates,
	})
	fmt.Println(err)
	if core.KindOf(err) == core.KindInternal && ctx.Err() == nil {
		return 7
	}
	return 1
}

// watchedWriter closes drawn when the alternate screen is switched on.
type watchedWriter struct {
	io.Writer

	once  sync.Once
	drawn chan struct{}
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\x1b[?1049h")) {
		defer w.once.Do(func() { close(w.drawn) })
	}
	return w.Writer.Write(p)
}
