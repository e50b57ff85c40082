package core

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Upper bounds for all providers. They catch typing errors; quotas and providers set tighter bounds.
const (
	maxCPU       = 1024
	maxProcesses = 4 << 20
	maxOpenFiles = 1 << 30
	MaxLifetime  = 10 * 365 * 24 * time.Hour
	maxStrings   = 1 << 20 // bytes of environment or argv
)

// Validate makes the checks that need no provider. Errors are KindUsage and name the field.
func (s Spec) Validate() error {
	if s.Name != "" {
		if err := ValidateName("name", s.Name); err != nil {
			return err
		}
	}
	if s.App != "" {
		if err := ValidateName("app", s.App); err != nil {
			return err
		}
	}
	if err := s.validateImage(); err != nil {
		return err
	}
	if err := s.validateLimits(); err != nil {
		return err
	}
	if err := validateEnv(s.Env, s.Secrets); err != nil {
		return err
	}
	if err := validatePlace(s.Workdir, s.User); err != nil {
		return err
	}
	if err := s.validateNetwork(); err != nil {
		return err
	}
	if err := s.Ready.validate(); err != nil {
		return err
	}
	if err := s.Modal.validate(s); err != nil {
		return err
	}
	for i, v := range s.Volumes {
		if v.Source == "" || !path.IsAbs(v.Target) {
			return Invalid("volumes", "number %d needs a source and an absolute target", i+1)
		}
		if HasControl(v.Source) || HasControl(v.Target) {
			return Invalid("volumes", "number %d has a control character", i+1)
		}
	}
	for key, value := range s.Labels {
		if key == "" || len(key) > 128 || len(value) > 1024 || HasControl(key) || HasControl(value) || strings.Contains(key, "=") {
			return Invalid("labels", "%q is not a label", key)
		}
	}
	return validateArgv("command", s.Command)
}

func (s Spec) validateImage() error {
	var sources []string
	for _, f := range []struct{ name, value string }{
		{"image", s.Image}, {"dockerfile", s.Dockerfile}, {"template", s.Template}, {"snapshot", s.Snapshot}, {"checkpoint", s.Checkpoint},
	} {
		if f.value == "" {
			continue
		}
		sources = append(sources, f.name)
		if HasControl(f.value) || strings.ContainsAny(f.value, " ") && f.name != "dockerfile" {
			return Invalid(f.name, "%q has a blank or control character", f.value)
		}
	}
	if len(sources) > 1 {
		return Invalid(strings.Join(sources, " and "), "only one of them can say what the sandbox starts from")
	}
	if strings.ContainsFunc(s.Python, func(r rune) bool { return !strings.ContainsRune(versionRunes, r) }) {
		return Invalid("python", "%q is not a version, such as 3.12", s.Python)
	}
	for _, list := range [][]string{s.Pip, s.Apt} {
		for _, p := range list {
			if p == "" || HasControl(p) || strings.HasPrefix(p, "-") {
				return Invalid("packages", "%q is not a package", p)
			}
		}
	}
	return nil
}

// versionRunes are the characters of a version, which becomes part of an image name and of a Dockerfile.
const versionRunes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_+"

// validatePlace checks the working directory and the user of commands.
func validatePlace(workdir, user string) error {
	if workdir != "" && !path.IsAbs(workdir) || strings.ContainsRune(workdir, 0) {
		return Invalid("workdir", "%q is not an absolute path", workdir)
	}
	if HasControl(user) {
		return Invalid("user", "%q is not a user", user)
	}
	return nil
}

// unitHint is the hint for a size without a unit.
const unitHint = "a number without a unit is bytes: write 512MiB or 2G"

func (s Spec) validateLimits() error {
	if s.CPU < 0 || s.CPU > maxCPU || math.IsNaN(s.CPU) {
		return Invalid("cpu", "%v is not between 0 and %d cores", s.CPU, maxCPU)
	}
	if s.Memory != 0 && s.Memory < 16*MiB || s.Memory > 64*TiB {
		return Invalid("memory", "%s is not between 16MiB and 64TiB", s.Memory).WithHint(unitHint)
	}
	if s.Disk != 0 && s.Disk < MiB || s.Disk > 1024*TiB {
		return Invalid("disk", "%s is not between 1MiB and 1024TiB", s.Disk).WithHint(unitHint)
	}
	if s.Processes < 0 || s.Processes > maxProcesses {
		return Invalid("processes", "%d is not between 1 and %d", s.Processes, maxProcesses)
	}
	if s.OpenFiles < 0 || s.OpenFiles > maxOpenFiles {
		return Invalid("open_files", "%d is not between 1 and %d", s.OpenFiles, maxOpenFiles)
	}
	if s.MaxCost < 0 || math.IsNaN(s.MaxCost) || math.IsInf(s.MaxCost, 0) {
		return Invalid("max_cost", "%v is no amount", s.MaxCost)
	}
	for _, f := range []struct {
		name  string
		value Duration
	}{{"timeout", s.Timeout}, {"idle_timeout", s.IdleTimeout}} {
		if f.value < 0 && f.value != NoTimeout || time.Duration(f.value) > MaxLifetime {
			return Invalid(f.name, "%s is not between 0 and ten years", f.value)
		}
	}
	return nil
}

// Validate checks a network policy.
func (n Network) Validate() error {
	switch n.Mode {
	case NetworkDefault, NetworkNone, NetworkAll, NetworkInternal:
		if len(n.Allow) > 0 {
			return Invalid("network", "an allow-list needs mode %q", NetworkAllow)
		}
	case NetworkAllow:
		for _, a := range n.Allow {
			if _, err := netip.ParsePrefix(a); err != nil && (a == "" || strings.ContainsAny(a, "/ :@") || HasControl(a)) {
				return Invalid("network", "%q is neither a domain nor a CIDR", a)
			}
		}
	default:
		return Invalid("network", "%q is not one of none, all, allow and internal", n.Mode)
	}
	return nil
}

func (s Spec) validateNetwork() error {
	if err := s.Network.Validate(); err != nil {
		return err
	}
	for _, cidr := range s.Inbound {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return Invalid("inbound", "%q is not a CIDR, such as 203.0.113.0/24", cidr)
		}
	}
	seen := map[int]bool{}
	for _, p := range s.Ports {
		if p.Sandbox < 1 || p.Sandbox > 65535 || p.Host < 0 || p.Host > 65535 {
			return Invalid("ports", "%d:%d is not HOST:SANDBOX with ports from 1 to 65535", p.Host, p.Sandbox)
		}
		if p.Host != 0 && seen[p.Host] {
			return Invalid("ports", "host port %d is named twice", p.Host)
		}
		seen[p.Host] = true
		switch p.Protocol {
		case PortDefault, PortTCP, PortHTTPS, PortH2:
		default:
			return Invalid("ports", "%q is not one of tcp, https and h2", p.Protocol)
		}
	}
	return nil
}

// bytesHint is the hint for values that are not text: providers pass arguments and variables as text.
const bytesHint = "pass other bytes through stdin or a file, or encoded"

// validateEnv checks the names of environment variables and secrets, and that their values are UTF-8 without NUL.
func validateEnv(env map[string]string, secrets []Secret) error {
	size := 0
	for name, value := range env {
		if !EnvName(name) || strings.ContainsRune(value, 0) {
			return Invalid("env", "%q is not an environment variable", name)
		}
		if !utf8.ValidString(value) {
			return Invalid("env", "the value of %s is not UTF-8", name).WithHint(bytesHint)
		}
		size += len(name) + len(value)
	}
	for _, secret := range secrets {
		if !EnvName(secret.Name) || strings.ContainsRune(secret.Value.Reveal(), 0) {
			return Invalid("secrets", "%q is not an environment variable", secret.Name)
		}
		if !utf8.ValidString(secret.Value.Reveal()) {
			return Invalid("secrets", "the value of %s is not UTF-8", secret.Name).WithHint(bytesHint)
		}
		if _, twice := env[secret.Name]; twice {
			return Invalid("secrets", "%s is in the environment, too", secret.Name)
		}
		size += len(secret.Name) + len(secret.Value.Reveal())
	}
	if size > maxStrings {
		return Invalid("env", "the environment is larger than %d bytes", maxStrings)
	}
	return nil
}

// Validate checks a command before it goes to a provider.
func (e ExecSpec) Validate() error {
	if len(e.Command) == 0 || e.Command[0] == "" {
		return Errorf(KindUsage, "exec", "", "no command to run")
	}
	if err := validateArgv("command", e.Command); err != nil {
		return err
	}
	if err := validatePlace(e.Workdir, e.User); err != nil {
		return err
	}
	if e.Timeout < 0 {
		return Invalid("timeout", "%s is negative", e.Timeout)
	}
	return validateEnv(e.Env, e.Secrets)
}

func validateArgv(field string, argv []string) error {
	size := 0
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return Invalid(field, "an argument has a NUL byte")
		}
		if !utf8.ValidString(arg) {
			return Invalid(field, "an argument is not UTF-8").WithHint(bytesHint)
		}
		size += len(arg)
	}
	if size > maxStrings {
		return Invalid(field, "it is larger than %d bytes", maxStrings)
	}
	if len(argv) > 0 && argv[0] == "" {
		return Invalid(field, "the program's name is empty")
	}
	return nil
}

// EnvName reports whether name is a valid variable name.
func EnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "= \t\r\n\x00") && (name[0] < '0' || name[0] > '9')
}

// HasControl reports whether s contains control characters.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Invalid returns an error of kind usage about a field of a spec.
func Invalid(field, format string, args ...any) *Error {
	return Errorf(KindUsage, "validate", "", "%s: %s", field, fmt.Sprintf(format, args...))
}

// Needs lists the capabilities that the spec requires.
func (s Spec) Needs() []Capability {
	var caps []Capability
	add := func(c Capability, when bool) {
		if when && !slices.Contains(caps, c) {
			caps = append(caps, c)
		}
	}
	add(CapBuild, s.Dockerfile != "" || s.Python != "" || len(s.Pip)+len(s.Apt) > 0)
	add(CapTemplates, s.Template != "")
	add(CapSnapshots, s.Snapshot != "")
	add(CapCheckpoint, s.Checkpoint != "")
	add(CapCPU, s.CPU != 0)
	add(CapMemory, s.Memory != 0)
	add(CapDisk, s.Disk != 0)
	add(CapProcesses, s.Processes != 0)
	add(CapOpenFiles, s.OpenFiles != 0)
	add(CapGPU, !s.GPU.IsZero())
	add(CapTimeout, s.Timeout > 0)
	add(CapNoTimeout, s.Timeout == NoTimeout)
	add(CapIdle, s.IdleTimeout > 0)
	add(CapPersist, s.Persist)
	add(CapVolumes, len(s.Volumes) > 0)
	add(CapPorts, len(s.Ports) > 0)
	add(CapPortTLS, slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol == PortHTTPS || p.Protocol == PortH2 }))
	add(CapInbound, len(s.Inbound) > 0)
	add(CapModal, s.Modal != nil)
	add(CapUser, s.User != "")
	add(CapSecretStore, slices.ContainsFunc(s.Secrets, Secret.Kept))
	add(CapNetNone, s.Network.Mode == NetworkNone)
	add(CapNetAll, s.Network.Mode == NetworkAll)
	add(CapNetAllow, s.Network.Mode == NetworkAllow)
	add(CapNetInternal, s.Network.Mode == NetworkInternal)
	return caps
}
