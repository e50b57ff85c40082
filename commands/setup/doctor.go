package setup

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// DoctorOptions are the options of doctor.
type DoctorOptions struct {
	App       *cli.App
	Providers []string
	JSON      bool
}

// NewDoctor makes "sb doctor".
func NewDoctor(app *cli.App) *cobra.Command {
	opts := &DoctorOptions{App: app}
	cmd := &cobra.Command{
		Use:   "doctor [PROVIDER...]",
		Short: "Check what works here and how to fix the rest",
		Long: "Check the configuration and every provider, and print the exact command or setting that fixes each " +
			"problem.\n" +
			"A provider that was never set up has a \"-\".\n\n" +
			"EXIT CODES\n" +
			"  6    a named provider, or every provider, is not usable\n" +
			"  See \"sb help exit-codes\" for the others.",
		Example:           "  sb doctor\n  sb doctor local --json",
		ValidArgsFunction: app.CompleteProviders,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Providers = args
			return runDoctor(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(
		cmd, &opts.JSON,
		"an object: config (file, error, hint), providers (name, usable, not_set_up, error, hint, capabilities, findings "+
			"of name, status, detail, fix)",
	)
	return cmd
}

// diagnosis is the JSON of doctor.
type diagnosis struct {
	Config    configHealth             `json:"config"`
	Providers []service.ProviderStatus `json:"providers"`
}

type configHealth struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

func runDoctor(ctx context.Context, opts *DoctorOptions) error {
	var result diagnosis
	result.Providers = []service.ProviderStatus{}
	svc, configErr := opts.App.Service()
	result.Config = configHealth{OK: configErr == nil}
	if configErr != nil {
		result.Config.Error, result.Config.Hint = configErr.Error(), core.HintOf(configErr)
	} else {
		for _, status := range svc.Providers.List(ctx, true) {
			if len(opts.Providers) == 0 || slices.Contains(opts.Providers, status.Name) {
				result.Providers = append(result.Providers, status)
			}
		}
		if err := unknownProvider(opts.Providers, result.Providers); err != nil {
			return err
		}
	}
	if opts.JSON {
		if err := output.JSON(opts.App.Streams.Out, result); err != nil {
			return err
		}
	} else if err := writeDiagnosis(opts.App.Streams.Out, result, len(opts.Providers) > 0); err != nil {
		return err
	}
	if configErr != nil {
		return &cli.ExitError{Code: cli.ExitCode(core.KindOf(configErr))}
	}
	usable := 0
	for _, p := range result.Providers {
		if p.Usable {
			usable++
		}
	}
	if usable == 0 || (len(opts.Providers) > 0 && usable < len(result.Providers)) {
		return &cli.ExitError{Code: cli.ExitCode(core.KindUnavailable)}
	}
	return nil
}

func unknownProvider(requested []string, found []service.ProviderStatus) error {
	for _, name := range requested {
		if !slices.ContainsFunc(found, func(p service.ProviderStatus) bool { return p.Name == name }) {
			return core.Errorf(core.KindUsage, "doctor", name, "there is no provider %q", name).
				WithHint("%q lists them", "sb provider ls")
		}
	}
	return nil
}

// writeDiagnosis writes a diagnosis for people. A provider that was not set up is a fault only if it was named.
func writeDiagnosis(w io.Writer, d diagnosis, named bool) error {
	say := &sayer{w: w}
	if d.Config.OK {
		say.line("ok      configuration")
	} else {
		say.line("error   configuration: " + d.Config.Error)
		say.fix(d.Config.Hint)
	}
	for _, p := range d.Providers {
		switch {
		case p.Usable:
			say.line("ok      provider " + p.Name + ": " + p.Capabilities.Isolation)
		case p.NotSetUp && !named:
			say.line("-       provider " + p.Name + ": " + p.Error)
			say.line("          to use it: " + p.Hint)
			continue
		default:
			say.line("error   provider " + p.Name + ": " + p.Error)
			say.fix(p.Hint)
		}
		for _, f := range p.Findings {
			text := fmt.Sprintf("  %-7s %s", f.Status, f.Name)
			if f.Detail != "" {
				text += ": " + f.Detail
			}
			say.line(text)
			say.fix(f.Fix)
		}
	}
	return say.err
}

// sayer writes lines and keeps the first error.
type sayer struct {
	w   io.Writer
	err error
}

func (s *sayer) line(text string) {
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.w, output.Clean(text))
	}
}

func (s *sayer) fix(text string) {
	if text != "" {
		s.line("          fix: " + text)
	}
}
