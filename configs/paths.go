package configs

import (
	"cmp"
	"os/user"
	"path/filepath"

	"github.com/seed-0724f904/sb/core"
)

// Paths are the files and directories of sb, by the XDG Base Directory Specification.
type Paths struct {
	// Config is config.yaml.
	Config string
	// ConfigSet reports that the user named Config, so the file must exist.
	ConfigSet bool
	// State outlives a reboot. It has the sandboxes with their sockets, and the audit log.
	State string
	// Cache may be deleted while no sandbox runs.
	Cache string
}

// FindPaths returns the paths and creates none of them. It does not use XDG_RUNTIME_DIR: that differs between a user's
// logins and ends with the last one, and sandboxes must be reachable from all.
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
	return p, nil
}

func homeDir(lookup Lookup) (string, error) {
	if home, _ := lookup("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", core.Errorf(core.KindUsage, "config", "", "this user has no home directory").
		WithHint("set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_CACHE_HOME")
}
