package commands

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui"
)

// templateDir is where this user's templates are: spec files, NAME.yaml.
func templateDir(paths configs.Paths) string {
	return filepath.Join(filepath.Dir(paths.Config), "templates")
}

// templatesIn finds templates in a directory, which need not exist.
func templatesIn(dir string) core.Templates {
	return func(name string) (core.Spec, bool, error) {
		spec, err := readTemplate(filepath.Join(dir, name+".yaml"))
		if errors.Is(err, fs.ErrNotExist) {
			return core.Spec{}, false, nil
		}
		return spec, true, err
	}
}

// completeTemplates completes the names of this user's templates.
func (a *App) completeTemplates(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	paths, err := a.Paths()
	if err != nil {
		return nil, noFiles
	}
	files, err := filepath.Glob(filepath.Join(templateDir(paths), "*.yaml"))
	if err != nil {
		return nil, noFiles
	}
	names := make([]cobra.Completion, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	return names, noFiles
}

// readTemplates reads the spec files in a directory, which need not exist.
func readTemplates(dir string) ([]tui.Template, error) {
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
		spec, err := readTemplate(filepath.Join(dir, entry.Name()))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		templates = append(templates, tui.Template{Name: name, Spec: spec})
	}
	return templates, errors.Join(failed...)
}

func readTemplate(path string) (core.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return core.Spec{}, core.Wrap("templates", path, err)
	}
	defer func() { _ = f.Close() }()
	return configs.ReadSpec(path, f)
}
