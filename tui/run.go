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
	"github.com/seed-0724f904/sb/tui/theme"
)

// Options configure a dashboard.
type Options struct {
	Service *service.Service
	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
	// Theme is one of Themes; "" is ThemeAuto.
	Theme string
	// NoColor selects ThemePlain, whatever Theme is.
	NoColor bool
	// Keys replaces the default keys of the named commands; see ParseKeys.
	Keys map[string][]string
	// Mouse enables mouse support.
	Mouse bool
	// Attach is a name or id of the sandbox to open first, or "".
	Attach string
	// TableOnly hides the detail pane ("sb top").
	TableOnly bool
	// MemoryFile stores the layout; "" stores nothing.
	MemoryFile string
	// Shell runs a command in a sandbox on the terminal and returns when it ends; nil disables shells.
	Shell func(ctx context.Context, sandbox string, command []string) error
	// Edit opens a local file in an editor on the terminal and returns when it ends; nil disables editing.
	Edit func(ctx context.Context, path string) error
	// Suspend releases the terminal, stops the process, and returns once the process is resumed; nil disables it.
	Suspend func() error
	// Asides delivers functions that need the terminal for a moment, such as a suspend by signal; nil has none.
	Asides <-chan func() error
	// Templates returns the templates of the launch form; nil has none.
	Templates func() ([]Template, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// ResetTerminal restores every terminal mode that a dashboard changes. It is for a dashboard that was killed.
const ResetTerminal = ansi.ResetModifyOtherKeys + "\x1b[<1u" + // the keyboard protocol
	ansi.ResetModeMouseButtonEvent + ansi.ResetModeMouseAnyEvent + ansi.ResetModeMouseExtSgr +
	ansi.ResetModeBracketedPaste + ansi.ResetModeSynchronizedOutput + ansi.ResetModeUnicodeCore +
	ansi.ResetModeAltScreenSaveCursor + ansi.SetModeTextCursorEnable + "\x1b]2;\a\x1b[m\r"

// Run shows the dashboard until the user quits or ctx ends, and restores the terminal. Sandboxes keep running.
// KindNotFound: the sandbox in Attach does not exist.
func Run(ctx context.Context, options Options) error { return run(ctx, options) }

func run(ctx context.Context, options Options, more ...tea.ProgramOption) error {
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Theme = cmp.Or(options.Theme, theme.Auto)
	if options.Attach != "" {
		box, err := options.Service.Sandboxes.Resolve(ctx, options.Attach)
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
	// The program does not get ctx itself: when a program's context ends, it closes its input while still reading it.
	program := tea.NewProgram(model, append(more, tea.WithInput(options.Input), tea.WithOutput(options.Output),
		tea.WithoutSignalHandler(), tea.WithFilter(oneMeasure))...)
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
		return core.Errorf(core.KindInternal, "ui", "", "the dashboard crashed: %w", runErr)
	case ctx.Err() != nil:
		return ctx.Err()
	case runErr != nil:
		return core.Errorf(core.KindInternal, "ui", "", "the terminal failed: %w", runErr)
	}
	return errors.Join(closeErr, model.memory().save(options.MemoryFile))
}

// oneMeasure drops the terminal's report about grapheme clusters. With it Bubble Tea would measure text by clusters,
// while this package measures text by characters (see width).
func oneMeasure(_ tea.Model, msg tea.Msg) tea.Msg {
	if report, ok := msg.(tea.ModeReportMsg); ok && report.Mode == ansi.ModeUnicodeCore {
		return nil
	}
	return msg
}
