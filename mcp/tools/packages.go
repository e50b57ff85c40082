package tools

import (
	"context"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// InstallIn is the input of packages_install.
type InstallIn struct {
	Sandbox  string   `json:"sandbox"`
	Packages []string `json:"packages" jsonschema:"such as pandas or pandas==2.2.0"`
	Manager  string   `json:"manager,omitempty" enum:"pip|npm|apt" default:"pip"`
	Index    string   `json:"index_url,omitempty" jsonschema:"another index, for pip and npm"`
	Wait     *int     `json:"wait_seconds,omitempty" jsonschema:"answers after this time at the latest"`
}

// StatusIn is the input of packages_status.
type StatusIn struct {
	Sandbox string `json:"sandbox"`
	Package string `json:"package"`
	Manager string `json:"manager,omitempty" enum:"pip|npm|apt" default:"pip"`
}

// StatusOut reports whether a package is installed.
type StatusOut struct {
	Package   string `json:"package"`
	Installed bool   `json:"installed"`
	Details   string `json:"details"`
}

// Text implements texter.
func (o StatusOut) Text() string {
	if !o.Installed {
		return strings.TrimSpace(o.Package + " is not installed. " + o.Details)
	}
	return strings.TrimSpace(o.Package + " is installed. " + o.Details)
}

func packageTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "packages_install", Title: "Install packages", Toolset: setup.Packages, OpenWorld: true, Idempotent: true,
			Description: "Install packages in a running sandbox that has a network, with pip, npm or apt. An " +
				"installation " +
				"that outlasts this call keeps running, and exec_wait returns the rest.",
		}, Install),
		Define(Tool{
			Name: "packages_status", Title: "Is a package installed?", Toolset: setup.Packages, Extra: true, ReadOnly: true,
			Idempotent:  true,
			Description: "Report whether a package is installed in a sandbox. The result has its version.",
		}, PackageStatus),
	}
}

// npmInstall installs packages for all users. Node.js does not look for modules in npm's global directory, but in
// /node_modules for every program, so that becomes a link to it. Without the right to make the link, programs that the
// packages bring still run.
const npmInstall = `npm install --global --no-fund --no-audit "$@" || exit
[ -e /node_modules ] || ln -s "$(npm root --global)" /node_modules || :`

// checkPackages refuses names that a package manager would read as options.
func checkPackages(packages []string) error {
	if len(packages) == 0 {
		return core.Errorf(core.KindUsage, "install", "", "name at least one package")
	}
	for _, p := range packages {
		if p == "" || strings.HasPrefix(p, "-") || strings.ContainsAny(p, "\x00\n") {
			return core.Errorf(core.KindUsage, "install", "", "%q is not a package", p)
		}
	}
	return nil
}

// Install installs packages in a running sandbox.
func Install(ctx context.Context, c *Call, in InstallIn) (ExecResult, error) {
	if err := checkPackages(in.Packages); err != nil {
		return ExecResult{}, err
	}
	var argv []string
	switch in.Manager {
	case "npm":
		argv = []string{"/bin/sh", "-c", npmInstall, "npm"}
		if in.Index != "" {
			argv = append(argv, "--registry", in.Index)
		}
	case "apt":
		if in.Index != "" {
			return ExecResult{}, core.Errorf(
				core.KindUsage, "install", "", "apt takes its indexes from its own files; index_url is for pip and npm",
			)
		}
		argv = []string{
			"/bin/sh", "-c", `apt-get update -q && exec apt-get install -y -q --no-install-recommends -- "$@"`, "apt",
		}
	default:
		argv = []string{"python3", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"}
		if in.Index != "" {
			argv = append(argv, "--index-url", in.Index)
		}
	}
	if in.Manager != "apt" {
		argv = append(argv, "--")
	}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return ExecResult{}, err
	}
	return c.Execute(ctx, sb, Execution{
		Spec: core.ExecSpec{
			Command: append(argv, in.Packages...),
			Env: map[string]string{
				"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "DEBIAN_FRONTEND": "noninteractive",
			},
		},
		Wait: c.deadline(in.Wait), Budget: c.Budget(0),
	})
}

// statusTimeout bounds a query for a package.
const statusTimeout = 30 * time.Second

// PackageStatus queries the package manager for one package.
func PackageStatus(ctx context.Context, c *Call, in StatusIn) (StatusOut, error) {
	if err := checkPackages([]string{in.Package}); err != nil {
		return StatusOut{}, err
	}
	var argv []string
	switch in.Manager {
	case "npm":
		argv = []string{"npm", "ls", "--global", "--depth=0", "--", in.Package}
	case "apt":
		argv = []string{"dpkg-query", "-W", "-f", "${Package} ${Version} ${Status}", "--", in.Package}
	default:
		argv = []string{"python3", "-m", "pip", "show", "--disable-pip-version-check", "--", in.Package}
	}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return StatusOut{}, err
	}
	result, err := c.Execute(ctx, sb, Execution{
		Spec: core.ExecSpec{Command: argv, Timeout: statusTimeout}, Wait: 2 * statusTimeout, Budget: 2000,
	})
	if err != nil {
		return StatusOut{}, err
	}
	if result.ExitCode != nil && *result.ExitCode > 125 { // no such program: the status is unknown
		return StatusOut{}, core.Errorf(
			core.KindUnsupported, "packages_status", "", "%s failed: %s", argv[0],
			strings.TrimSpace(result.Message+" "+result.Stderr),
		)
	}
	out := StatusOut{Package: in.Package, Installed: result.ExitCode != nil && *result.ExitCode == 0}
	out.Details = strings.TrimSpace(result.Stdout)
	if !out.Installed {
		out.Details = strings.TrimSpace(result.Stderr)
	}
	return out, nil
}
