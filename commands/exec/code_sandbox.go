package exec

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/core/service"
)

// codeSandbox is the name of the sandbox of code that names none, and of its template.
const codeSandbox = "code"

// codeIdleTimeout ends that sandbox when it is unused, unless its template has another time.
const codeIdleTimeout = time.Hour

// sharedSandbox returns the sandbox of code that names none. It launches it at first use. Programs of a language whose
// image is configured have a sandbox of their own.
func sharedSandbox(ctx context.Context, app *cli.App, svc *service.Service, language code.Language) (string, error) {
	spec := core.Spec{Name: codeSandbox, Template: codeSandbox}
	config, err := app.Config()
	if err != nil {
		return "", err
	}
	if image := config.Images.ByLanguage()[string(language)]; image != "" && !language.HasSessions() {
		spec = core.Spec{Name: codeSandbox + "-" + string(language), Image: image}
	}
	box, err := svc.Sandboxes.Resolve(ctx, spec.Name)
	if err == nil && box.State.Live() {
		return spec.Name, nil
	}
	if err != nil && !errors.Is(err, core.KindNotFound) {
		return "", err
	}
	templates, err := app.Templates()
	if err != nil {
		return "", err
	}
	if _, found, err := templates(codeSandbox); err != nil {
		return "", err
	} else if !found || spec.Template == "" {
		spec.Template, spec.IdleTimeout = "", core.Duration(codeIdleTimeout)
	}
	report, stop := app.Progress()
	_, err = svc.Sandboxes.Launch(ctx, spec, service.LaunchOptions{Progress: report, Notice: app.Notice})
	stop()
	if errors.Is(err, core.KindConflict) { // another run launches it at the same time
		_, err = svc.Sandboxes.Resolve(ctx, spec.Name)
	}
	return spec.Name, err
}
