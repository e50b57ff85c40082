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

// Lookup is os.LookupEnv or a test's.
type Lookup func(name string) (string, bool)

// Loaded is a configuration and where each of its values comes from.
type Loaded struct {
	Config
	// Path is the file, whether it exists or not.
	Path string
	// Settings has every key, in the order of the documentation.
	Settings []Setting
}

// LoadFrom is Load of the file at paths.Config, which must exist if it was asked for.
func LoadFrom(paths Paths, lookup Lookup) (Loaded, error) {
	if _, err := os.Stat(paths.Config); paths.ConfigSet && errors.Is(err, fs.ErrNotExist) {
		return Loaded{}, core.Errorf(core.KindUsage, "config", paths.Config, "there is no such configuration file").
			WithHint("sb config init makes one there, with --config or SB_CONFIG as they are")
	}
	return Load(paths.Config, lookup)
}

// Load reads the file at path, which need not exist, and the environment above it.
// Errors are of core.KindUsage and name the file or variable, the key and what is expected.
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
		loaded.Settings = append(loaded.Settings, Setting{Key: k.name, Value: k.get(loaded.Config), Origin: origin, Doc: k.doc})
	}
	return loaded, nil
}

// fromFile is the text of a value as it stands in the file, or "" for null. YAML's own reading of
// text without quotes is refused where it would lose what was written, as in 012.
func fromFile(k key, value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case map[string]any, []any:
		return "", errors.New("not a single value")
	default:
		if k.kind == kindText || k.kind == kindChoice {
			return "", errors.New("not text; put it in quotes")
		}
		return fmt.Sprint(value), nil
	}
}

// Variable is the environment variable of a key.
func Variable(key string) string {
	return "SB_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func readFile(v *viper.Viper, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		return core.Errorf(core.KindUsage, "config", path, "it is a directory, not a file").WithHint("remove it, or name another file with --config or SB_CONFIG")
	}
	if err != nil {
		return core.Errorf(core.KindUsage, "config", path, "it cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() && path != os.DevNull { // others may block, or never end
		return core.Errorf(core.KindUsage, "config", path, "it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return core.Errorf(core.KindUsage, "config", path, "it cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := v.ReadConfig(f); err != nil {
		return core.Errorf(core.KindUsage, "config", path, "it is not valid YAML: %w", err).WithHint("mend it, or begin again with: sb config init --force")
	}
	return nil
}

// refuseUnknown makes an error of the first key that no setting has.
func refuseUnknown(v *viper.Viper, path string, known []key) error {
	valid := names(known)
	set := v.AllKeys()
	slices.Sort(set)
	for _, name := range set {
		below := slices.ContainsFunc(valid, func(k string) bool { return strings.HasPrefix(name, k+".") }) // Load says what is wrong
		section := slices.ContainsFunc(valid, func(k string) bool { return strings.HasPrefix(k, name+".") })
		switch {
		case slices.Contains(valid, name) || below || section && v.Get(name) == nil:
		case section:
			return core.Errorf(core.KindUsage, "config", path, "%s is a section and has no value of its own", name)
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
	e := core.Errorf(core.KindUsage, "config", path, "there is no setting %q", name)
	if near := core.Nearest(name, names); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("sb config list shows all settings")
}

func badValue(origin string, k key, value string, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*core.Error](err); ok && e.Err != nil {
		message = e.Err.Error()
	}
	return core.Errorf(core.KindUsage, "config", origin, "%s = %q: %s", k.name, value, message).WithHint("%s; for example: %s", k.doc, k.fallback)
}
