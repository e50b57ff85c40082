package packages

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

//go:embed install.sh
var script string

// InstallApt is the shell function install_apt, which installs Debian packages. The variable SB_APT_MIRROR, if set, is
// the address of their archive.
//
//go:embed apt.sh
var InstallApt string

// Manager is a package manager.
type Manager string

// The package managers. Auto is the first of UV, Pip, NPM and Apt that the sandbox has.
const (
	Auto Manager = "auto"
	UV   Manager = "uv"
	Pip  Manager = "pip"
	NPM  Manager = "npm"
	Apt  Manager = "apt"
)

// Managers returns the names of managers.
func Managers() []Manager { return []Manager{Auto, UV, Pip, NPM, Apt} }

// Indexes are the addresses from which packages come; "" is the manager's own. They may contain passwords.
type Indexes struct {
	Pip, NPM string
	// Apt replaces the archive in the sandbox's own lists of sources.
	Apt string
}

// Install is an installation of packages.
type Install struct {
	Manager  Manager
	Packages []string
}

// name marks the command of an installation in the journal.
const name = "sb-install"

// Command sets the command of spec to the installation. The indexes are in the environment, because the journal keeps
// the arguments. Variables that spec has already stay.
func (i Install) Command(spec core.ExecSpec, from Indexes) (core.ExecSpec, error) {
	if !slices.Contains(Managers(), i.Manager) {
		return spec, core.Errorf(core.KindUsage, "install", string(i.Manager), "%q is not a package manager", i.Manager).
			WithHint("use auto, uv, pip, npm or apt")
	}
	if len(i.Packages) == 0 {
		return spec, core.Errorf(core.KindUsage, "install", "", "name at least one package")
	}
	for _, p := range i.Packages {
		if p == "" || strings.HasPrefix(p, "-") || core.HasControl(p) {
			return spec, core.Errorf(core.KindUsage, "install", p, "%q is not a package", p)
		}
	}
	spec.Command = slices.Concat([]string{"sh", "-c", InstallApt + script, name, string(i.Manager)}, i.Packages)
	env := map[string]string{}
	for key, address := range map[string]string{
		"PIP_INDEX_URL": from.Pip, "UV_DEFAULT_INDEX": from.Pip, "npm_config_registry": from.NPM, "SB_APT_MIRROR": from.Apt,
	} {
		if address != "" {
			env[key] = address
		}
	}
	maps.Copy(env, spec.Env)
	spec.Env = env
	return spec, nil
}

// Parse returns the installation of a command, as the journal has it.
func Parse(command []string) (Install, bool) {
	if len(command) < 6 || command[0] != "sh" || command[3] != name {
		return Install{}, false
	}
	return Install{Manager: Manager(command[4]), Packages: command[5:]}, true
}
