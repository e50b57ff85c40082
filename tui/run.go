package tui

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Options are what a dashboard is made of.
type Options struct {
	Service *service.Service
	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
	// Theme is one of Themes; "" is ThemeAuto.
	Theme string
	// NoColor overrides the theme.
	NoColor bool
	// Keys takes the place of the default keys of the commands named.
	Keys map[string][]string
	// Mouse lets the dashboard have the mouse.
	Mouse bool
	// Attach is a reference to the sandbox to begin with, or "".
	Attach string
	// TableOnly shows the table alone.
	TableOnly bool
	// MemoryFile is where the layout is remembered; "" remembers nothing.
	MemoryFile string
	// Shell runs a command of a sandbox on the terminal until it ended; nil has no shells.
	Shell func(ctx context.Context, sandbox string, command []string) error
	// Edit lets a person edit a file of this machine on the terminal; nil has no editor.
	Edit func(ctx context.Context, path string) error
	// Suspend stops the program until somebody brings it back, with the terminal given back; nil cannot.
	Suspend func() error
	// Asides brings what wants the terminal for itself for a moment, such as a stop that somebody else asked for; nil brings nothing.
	Asides <-chan func() error
	// Templates are offered by the launch form; nil has none.
	Templates func() ([]Template, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// ResetTerminal takes back all that a dashboard changes of a terminal, for one that could not do
// it itself.
const ResetTerminal = ansi.ResetModifyOtherKeys + "\x1b[<1u" + // the keyboard protocol
	ansi.ResetModeMouseButtonEvent + ansi.ResetModeMouseAnyEvent + ansi.ResetModeMouseExtSgr + ansi.ResetModeBracketedPaste +
	ansi.ResetModeSynchronizedOutput + ansi.ResetModeUnicodeCore + ansi.ResetModeAltScreenSaveCursor + ansi.SetModeTextCursorEnable + "\x1b]2;\a\x1b[m\r"

// Run shows the dashboard until it is quit or ctx ends, and leaves the terminal as it was.
// Sandboxes go on. KindNotFound: there is no sandbox Attach.
func Run(ctx context.Context, options Options) error { return run(ctx, options) }

func run(ctx context.Context, options Options, more ...tea.ProgramOption) error {
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Theme = cmp.Or(options.Theme, ThemeAuto)
	if options.Attach != "" {
		box, err := options.Service.Resolve(ctx, options.Attach)
		if err != nil {
			return err
		}
		options.Attach = box.ID
	}
	fx := newEffects(ctx, options)
	model, err := newModel(fx, options, loadMemory(options.MemoryFile))
	if err != nil {
		return errors.Join(err, fx.close())
	}
	// The end of ctx is a wish to quit: a program whose own context ends closes its input while that is still being read.
	program := tea.NewProgram(model, append(more, tea.WithInput(options.Input), tea.WithOutput(options.Output), tea.WithoutSignalHandler(), tea.WithFilter(oneMeasure))...)
	ran := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ctx.Done():
			program.Quit()
		case <-ran:
		}
	})
	_, runErr := program.Run()
	close(ran)
	watching.Wait()
	closeErr := fx.close()
	switch {
	case errors.Is(runErr, tea.ErrProgramPanic):
		return core.Errorf(core.KindInternal, "ui", "", "the dashboard broke: %w", runErr)
	case ctx.Err() != nil:
		return ctx.Err()
	case runErr != nil:
		return core.Errorf(core.KindInternal, "ui", "", "the terminal failed: %w", runErr)
	}
	return errors.Join(closeErr, model.memory().save(options.MemoryFile))
}

// oneMeasure keeps Bubble Tea from changing how it measures text when the terminal says that it could count
// characters with their marks as one: all that is drawn is measured as the sum of its characters.
func oneMeasure(_ tea.Model, msg tea.Msg) tea.Msg {
	if report, ok := msg.(tea.ModeReportMsg); ok && report.Mode == ansi.ModeUnicodeCore {
		return nil
	}
	return msg
}
