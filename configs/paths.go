package configs

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/seed-0724f904/sb/core"
)

// Paths are the places that sb uses, as the XDG Base Directory Specification names them.
type Paths struct {
	// Config is config.yaml. One that was asked for, and is not just where it would be, must exist to be read.
	Config    string
	ConfigSet bool
	// State outlives a reboot: sandboxes and the audit log.
	State string
	// Cache can be deleted when no sandbox runs.
	Cache string
	// Runtime holds sockets; it is private to the user and ends with the boot.
	Runtime string
}

// FindPaths works the places out. It makes none but a private runtime directory where
// the system gives none.
func FindPaths(lookup Lookup) (Paths, error) {
	base := func(variable, below string) (string, error) {
		if dir, _ := lookup(variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, "sb"), nil
		}
		home, err := homeDir(lookup)
		return filepath.Join(home, below, "sb"), err
	}
	var p Paths
	config, configErr := base("XDG_CONFIG_HOME", ".config")
	state, stateErr := base("XDG_STATE_HOME", ".local/state")
	cache, cacheErr := base("XDG_CACHE_HOME", ".cache")
	if err := cmp.Or(configErr, stateErr, cacheErr); err != nil {
		return p, err
	}
	p.Config, p.State, p.Cache = filepath.Join(config, "config.yaml"), state, cache
	if file, _ := lookup("SB_CONFIG"); file != "" {
		p.Config, p.ConfigSet = file, true
	}
	var err error
	p.Runtime, err = runtimeDir(lookup)
	return p, err
}

func homeDir(lookup Lookup) (string, error) {
	if home, _ := lookup("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", core.Errorf(core.KindUsage, "config", "", "this user has no home directory").WithHint("set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_CACHE_HOME")
}

// runtimeDir is below XDG_RUNTIME_DIR where that is ours and private, else a
// directory below the temporary one that nobody else could have prepared.
func runtimeDir(lookup Lookup) (string, error) {
	if dir, _ := lookup("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && private(dir) == nil {
		return filepath.Join(dir, "sb"), nil
	}
	dir := filepath.Join(os.TempDir(), "sb-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", core.Errorf(core.KindUnavailable, "config", dir, "the runtime directory cannot be made: %w", err).WithHint("set XDG_RUNTIME_DIR to a private directory")
	}
	if err := private(dir); err != nil {
		return "", core.Errorf(core.KindUnauthorized, "config", dir, "the runtime directory is not safe: %w", err).WithHint("remove it, or set XDG_RUNTIME_DIR to a private directory")
	}
	return dir, nil
}
