package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui"
)

// TemplateDir is where this user's templates are: spec files, NAME.yaml.
func TemplateDir(paths configs.Paths) string {
	return filepath.Join(filepath.Dir(paths.Config), "templates")
}

// TemplatesIn finds templates in a directory, which may be missing.
func TemplatesIn(dir string, lookup func(string) (string, bool)) service.Templates {
	return func(name string) (core.Spec, bool, error) {
		spec, err := readTemplate(filepath.Join(dir, name+".yaml"), lookup)
		if errors.Is(err, fs.ErrNotExist) {
			return core.Spec{}, false, nil
		}
		return spec, true, err
	}
}

// CompleteTemplates completes the names of this user's templates.
func (a *App) CompleteTemplates(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	paths, err := a.Paths()
	if err != nil {
		return nil, NoFiles
	}
	files, err := filepath.Glob(filepath.Join(TemplateDir(paths), "*.yaml"))
	if err != nil {
		return nil, NoFiles
	}
	names := make([]cobra.Completion, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	return names, NoFiles
}

// ReadTemplates reads the spec files in a directory, which may be missing.
func ReadTemplates(dir string, lookup func(string) (string, bool)) ([]tui.Template, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, core.Wrap("templates", dir, err)
	}
	var templates []tui.Template
	var failed []error
	for _, entry := range entries {
		name, isYAML := strings.CutSuffix(entry.Name(), ".yaml")
		if !isYAML {
			continue
		}
		spec, err := readTemplate(filepath.Join(dir, entry.Name()), lookup)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		templates = append(templates, tui.Template{Name: name, Spec: spec})
	}
	return templates, errors.Join(failed...)
}

// readTemplate reads a spec file. The values of its secrets come from the environment, if they are set there.
func readTemplate(path string, lookup func(string) (string, bool)) (core.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return core.Spec{}, core.Wrap("templates", path, err)
	}
	defer func() { _ = f.Close() }()
	spec, err := configs.ReadSpec(path, f)
	for i, secret := range spec.Secrets {
		if value, set := lookup(secret.Name); set && secret.Ref == "" {
			spec.Secrets[i].Value = core.NewSecretValue(value)
		}
	}
	return spec, err
}
