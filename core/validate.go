package core

import (
	"cmp"
	"encoding/json"
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
	for _, f := range Fields() {
		if f.check == nil {
			continue
		}
		if err := f.check(s); err != nil {
			return err
		}
	}
	if err := s.validateSource(); err != nil {
		return err
	}
	if err := validateEnv(s.Env, s.Secrets); err != nil {
		return err
	}
	if err := s.Network.Validate(); err != nil {
		return err
	}
	return s.validatePorts()
}

func validateOptionalName(field, name string) error {
	if name == "" {
		return nil
	}
	return ValidateName(field, name)
}

// validateSource checks the fields that name the source of a sandbox. At most one of them may be set.
func (s Spec) validateSource() error {
	var sources []string
	for _, f := range []struct{ name, value string }{
		{"image", s.Image},
		{"dockerfile", s.Dockerfile},
		{"template", s.Template},
		{"snapshot", s.Snapshot},
		{"checkpoint", s.Checkpoint},
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
		return Invalid(strings.Join(sources, " and "), "only one of them can define the start of the sandbox")
	}
	return nil
}

func (s Spec) checkPull() error {
	if s.Pull != PullDefault && !slices.Contains(PullPolicies(), string(s.Pull)) {
		return Invalid("pull", "%q is not one of missing, always and never", s.Pull)
	}
	return nil
}

func (s Spec) checkPython() error {
	if strings.ContainsFunc(s.Python, func(r rune) bool { return !strings.ContainsRune(versionRunes, r) }) {
		return Invalid("python", "%q is not a version, such as 3.12", s.Python)
	}
	return nil
}

func validatePackages(list []string) error {
	for _, p := range list {
		if p == "" || HasControl(p) || strings.HasPrefix(p, "-") {
			return Invalid("packages", "%q is not a package", p)
		}
	}
	return nil
}

// versionRunes are the characters of a version, which becomes part of an image name and of a Dockerfile.
const versionRunes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_+"

func (s Spec) checkWorkdir() error { return validateWorkdir(s.Workdir) }

func validateWorkdir(workdir string) error {
	if workdir != "" && !path.IsAbs(workdir) || strings.ContainsRune(workdir, 0) {
		return Invalid("workdir", "%q is not an absolute path", workdir)
	}
	return nil
}

func (s Spec) checkUser() error { return validateUser(s.User) }

func validateUser(user string) error {
	if HasControl(user) {
		return Invalid("user", "%q is not a user", user)
	}
	return nil
}

func (s Spec) checkCPU() error {
	if s.CPU < 0 || s.CPU > maxCPU || math.IsNaN(s.CPU) {
		return Invalid("cpu", "%v is not between 0 and %d cores", s.CPU, maxCPU)
	}
	return nil
}

// unitHint is the hint for a size without a unit.
const unitHint = "a number without a unit is bytes: write 512MiB or 2G"

func (s Spec) checkMemory() error {
	if s.Memory != 0 && s.Memory < 16*MiB || s.Memory > 64*TiB {
		return Invalid("memory", "%s is not between 16MiB and 64TiB", s.Memory).WithHint(unitHint)
	}
	return nil
}

func (s Spec) checkDisk() error {
	if s.Disk != 0 && s.Disk < MiB || s.Disk > 1024*TiB {
		return Invalid("disk", "%s is not between 1MiB and 1024TiB", s.Disk).WithHint(unitHint)
	}
	return nil
}

func (s Spec) checkShmSize() error {
	if s.ShmSize < 0 || s.ShmSize > 64*TiB {
		return Invalid("shm_size", "%s is not between 1 and 64TiB", s.ShmSize).WithHint(unitHint)
	}
	return nil
}

func validateCount(field string, n, most int) error {
	if n < 0 || n > most {
		return Invalid(field, "%d is not between 1 and %d", n, most)
	}
	return nil
}

func validateTimeout(field string, timeout Duration) error {
	if timeout < 0 && timeout != NoTimeout || time.Duration(timeout) > MaxLifetime {
		return Invalid(field, "%s is not between 0 and ten years", timeout)
	}
	return nil
}

func (s Spec) checkMaxCost() error {
	if s.MaxCost < 0 || math.IsNaN(s.MaxCost) || math.IsInf(s.MaxCost, 0) {
		return Invalid("max_cost", "%v is not an amount", s.MaxCost)
	}
	return nil
}

func (s Spec) checkVolumes() error {
	for i, v := range s.Volumes {
		if v.Source == "" || !path.IsAbs(v.Target) {
			return Invalid("volumes", "number %d needs a source and an absolute target", i+1)
		}
		if HasControl(v.Source) || HasControl(v.Target) {
			return Invalid("volumes", "number %d has a control character", i+1)
		}
		if slices.ContainsFunc(s.Volumes[:i], func(other Volume) bool {
			return path.Clean(other.Target) == path.Clean(v.Target)
		}) {
			return Invalid("volumes", "two are mounted at %s", v.Target)
		}
		if v.CopyOnWrite && (v.ReadOnly || !v.IsPath()) {
			return Invalid("volumes", "number %d: copy-on-write needs a host directory, and no read-only", i+1).
				WithHint("write --volume /HOST/PATH:/PATH:cow")
		}
	}
	return nil
}

// checkTmpfs checks the directories in memory. The kernel's own file systems cannot be covered.
func (s Spec) checkTmpfs() error {
	var taken []string
	for _, v := range s.Volumes {
		taken = append(taken, path.Clean(v.Target))
	}
	for _, t := range s.Tmpfs {
		target := path.Clean(t.Target)
		if !path.IsAbs(t.Target) || HasControl(t.Target) || strings.ContainsAny(t.Target, ":,") {
			return Invalid("tmpfs", "%q is not an absolute path without colons and commas", t.Target)
		}
		if first, _, _ := strings.Cut(target[1:], "/"); first == "" || first == "proc" || first == "sys" || target == "/dev" {
			return Invalid("tmpfs", "nothing can be mounted at %s", t.Target)
		}
		if t.Size < 0 || t.Size > 64*TiB {
			return Invalid("tmpfs", "%s at %s is not between 1 and 64TiB", t.Size, t.Target).WithHint(unitHint)
		}
		if slices.Contains(taken, target) {
			return Invalid("tmpfs", "something else is mounted at %s", t.Target)
		}
		taken = append(taken, target)
	}
	return nil
}

func (s Spec) checkDNS() error {
	for _, server := range s.DNS {
		if a, err := netip.ParseAddr(server); err != nil || a.Zone() != "" {
			return Invalid("dns", "%q is not an IP address", server)
		}
	}
	if mode := s.Network.Mode; len(s.DNS) > 0 && (mode == NetworkNone || mode == NetworkInternal) {
		return Invalid("dns", "a sandbox with network %s reaches no name server", mode)
	}
	return nil
}

func (s Spec) checkLabels() error {
	for key, value := range s.Labels {
		if key == "" || len(key) > 128 || len(value) > 1024 || HasControl(key) || HasControl(value) ||
			strings.Contains(key, "=") {
			return Invalid("labels", "%q is not a label", key)
		}
	}
	return nil
}

// Validate checks a network policy.
func (n Network) Validate() error {
	switch n.Mode {
	case NetworkDefault, NetworkNone, NetworkAll, NetworkInternal:
		if len(n.Allow) > 0 && (n.Mode != NetworkAll || len(n.Allow) > 1 || !n.Host()) {
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

// Host reports whether the policy opens the machine that runs the sandbox.
func (n Network) Host() bool { return slices.Contains(n.Allow, AllowHost) }

func (s Spec) checkInbound() error {
	for _, cidr := range s.Inbound {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return Invalid("inbound", "%q is not a CIDR, such as 203.0.113.0/24", cidr)
		}
	}
	return nil
}

func (s Spec) validatePorts() error {
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
	if err := cmp.Or(validateWorkdir(e.Workdir), validateUser(e.User)); err != nil {
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

// checkModal checks that the section is an object. Its fields are Factory.CheckSpec's.
func (s Spec) checkModal() error {
	var fields map[string]json.RawMessage
	if s.Modal != nil && (json.Unmarshal(s.Modal, &fields) != nil || fields == nil) {
		return Invalid("modal", "expected an object of settings")
	}
	return nil
}
