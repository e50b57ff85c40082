package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/seed-0724f904/sb/core"
)

// Lookup returns an environment variable, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Config
	// Path is the file, which need not exist.
	Path string
	// Settings has every key, in the order of the template.
	Settings []Setting
}

// LoadFrom loads the file at paths.Config. If paths.ConfigSet, a missing file is core.KindUsage.
func LoadFrom(paths Paths, lookup Lookup) (Loaded, error) {
	if _, err := os.Stat(paths.Config); paths.ConfigSet && errors.Is(err, fs.ErrNotExist) {
		return Loaded{}, core.Errorf(core.KindUsage, "config", paths.Config, "no such configuration file").
			WithHint("make it with the same --config or SB_CONFIG: sb config init")
	}
	return Load(paths.Config, lookup)
}

// Load reads the file at path, which need not exist, and the environment above it. An error is core.KindUsage and names
// the file or variable, the key, and the expected value.
func Load(path string, lookup Lookup) (Loaded, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := readFile(v, path); err != nil {
		return Loaded{}, err
	}
	loaded := Loaded{Path: path}
	known := keys()
	if err := refuseUnknown(v, path, known); err != nil {
		return Loaded{}, err
	}
	for _, k := range known {
		value, origin := k.fallback, "default"
		if v.InConfig(k.name) {
			set, err := fromFile(k, v.Get(k.name))
			if err != nil {
				return Loaded{}, badValue("file "+path, k, fmt.Sprint(v.Get(k.name)), err)
			}
			if set != "" {
				value, origin = set, "file "+path
			}
		}
		if set, ok := lookup(Variable(k.name)); ok {
			value, origin = set, "environment "+Variable(k.name)
		}
		if err := k.set(&loaded.Config, value); err != nil {
			return Loaded{}, badValue(origin, k, value, err)
		}
		setting := Setting{Key: k.name, Value: k.get(loaded.Config), Origin: origin, Doc: k.doc}
		loaded.Settings = append(loaded.Settings, setting)
	}
	return loaded, nil
}

// fromFile returns the text of a value in the file, or "" for null. It refuses text without quotes that YAML reads as
// something else, such as 012.
func fromFile(k key, value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case map[string]any, []any:
		return "", errors.New("expected a single value")
	default:
		if k.kind == kindText || k.kind == kindChoice {
			return "", errors.New("expected text; put the value in quotes")
		}
		return fmt.Sprint(value), nil
	}
}

// Variable returns the environment variable of a key: SB_DEFAULTS_MEMORY for "defaults.memory".
func Variable(key string) string {
	return "SB_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func readFile(v *viper.Viper, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		return core.Errorf(core.KindUsage, "config", path, "expected a file, found a directory").
			WithHint("remove it, or name another file with --config or SB_CONFIG")
	}
	if err != nil {
		return core.Errorf(core.KindUsage, "config", path, "cannot read the file: %w", err)
	}
	if !info.Mode().IsRegular() && path != os.DevNull { // other kinds may block or have no end
		return core.Errorf(core.KindUsage, "config", path, "expected a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return core.Errorf(core.KindUsage, "config", path, "cannot read the file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := v.ReadConfig(f); err != nil {
		return core.Errorf(core.KindUsage, "config", path, "invalid YAML: %w", err).
			WithHint("correct the file, or replace it with: sb config init --force")
	}
	return nil
}

// refuseUnknown returns an error for the first unknown key.
func refuseUnknown(v *viper.Viper, path string, known []key) error {
	valid := names(known)
	set := v.AllKeys()
	slices.Sort(set)
	for _, name := range set {
		// Load reports a key below a setting.
		below := slices.ContainsFunc(valid, func(k string) bool { return strings.HasPrefix(name, k+".") })
		section := slices.ContainsFunc(valid, func(k string) bool { return strings.HasPrefix(k, name+".") })
		switch {
		case slices.Contains(valid, name) || below || section && v.Get(name) == nil:
		case section:
			return core.Errorf(core.KindUsage, "config", path, "%s is a section and takes no value", name)
		default:
			return unknownKey(path, name, valid)
		}
	}
	return nil
}

func names(known []key) []string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	return names
}

func unknownKey(path, name string, names []string) error {
	e := core.Errorf(core.KindUsage, "config", path, "unknown setting %q", name)
	if near := core.Nearest(name, names); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("list the settings with: sb config list")
}

func badValue(origin string, k key, value string, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*core.Error](err); ok && e.Err != nil {
		message = e.Err.Error()
	}
	hint := k.doc
	if k.fallback != "" {
		hint += "; for example: " + k.fallback
	}
	return core.Errorf(core.KindUsage, "config", origin, "%s = %q: %s", k.name, value, message).WithHint("%s", hint)
}
