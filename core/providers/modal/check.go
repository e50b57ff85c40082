package modal

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// Limits of Modal. A check before the launch saves an image build after a mistake.
const (
	maxLife    = 24 * time.Hour
	maxMemory  = 336 * core.GiB
	maxCPU     = 64
	defaultApp = "sb"
	// defaultLife is the lifetime of a sandbox without a timeout. Modal's default of five minutes is too short for
	// interactive use. Its maximum is expensive for a forgotten sandbox.
	defaultLife = time.Hour
)

// checkSpec rejects a spec that Modal would reject, and fills in the defaults.
func checkSpec(spec core.Spec) (core.Spec, error) {
	refuse := func(field, format string, args ...any) error {
		return core.Errorf(core.KindUsage, "modal.launch", "", "%s: %s", field, fmt.Sprintf(format, args...))
	}
	if err := checkGPU(spec.GPU); err != nil {
		return spec, err
	}
	switch {
	case spec.Timeout > core.Duration(maxLife):
		return spec, refuse("timeout", "a sandbox at Modal lives 24h at most, not %s", spec.Timeout)
	case spec.IdleTimeout > core.Duration(maxLife):
		return spec, refuse("idle_timeout", "%s is more than 24h", spec.IdleTimeout)
	case spec.Memory > maxMemory:
		return spec, refuse("memory", "a sandbox at Modal has at most %s, not %s", maxMemory, spec.Memory)
	case spec.CPU > maxCPU || spec.CPU > 0 && spec.CPU < 0.125:
		return spec, refuse("cpu", "a sandbox at Modal has 0.125 to %d cores, not %v", maxCPU, spec.CPU)
	case spec.GPU.IsZero() && strings.Contains(spec.Image, " "):
		return spec, refuse("image", "%q is not an image", spec.Image)
	}
	if err := checkModal(spec); err != nil {
		return spec, err
	}
	for _, port := range spec.Ports {
		if port.Host != 0 {
			return spec, core.Errorf(
				core.KindUnsupported, "modal.launch", "",
				"ports: Modal chooses the address, so port %d of this machine cannot be used", port.Host,
			).
				WithHint("use only the port in the sandbox: --port %d", port.Sandbox)
		}
	}
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Source, "/") {
			return spec, core.Errorf(
				core.KindUnsupported, "modal.launch", v.Source, "Modal cannot see directories of this machine",
			).WithHint("name a volume of Modal's")
		}
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"user", spec.User != ""},
		{"disk", spec.Disk != 0},
		{"processes", spec.Processes != 0},
		{"open_files", spec.OpenFiles != 0},
		{"persist", spec.Persist},
	} {
		if field.set {
			return spec, core.Errorf(core.KindUnsupported, "modal.launch", "", "Modal has no %s", field.name)
		}
	}
	if spec.Timeout == 0 {
		spec.Timeout = core.Duration(defaultLife)
	}
	if spec.App == "" {
		spec.App = defaultApp
	}
	return spec, nil
}

// checkModal rejects values that Modal would reject in the options that only Modal has.
func checkModal(spec core.Spec) error {
	refuse := func(field, format string, args ...any) error {
		return core.Errorf(core.KindUsage, "modal.launch", "", "%s: %s", field, fmt.Sprintf(format, args...))
	}
	closed := spec.Network.Mode == core.NetworkNone
	if closed && len(spec.Inbound) > 0 {
		return refuse("inbound", "a sandbox without a network cannot have open ports")
	}
	m, err := modalspec.Of(spec)
	if err != nil {
		return err
	}
	switch {
	case m.CPULimit > maxCPU:
		return refuse("modal.cpu_limit", "a sandbox at Modal has at most %d cores, not %v", maxCPU, m.CPULimit)
	case m.CPULimit > 0 && spec.CPU == 0:
		return refuse("modal.cpu_limit", "it needs --cpu, the number of reserved cores")
	case m.MemoryLimit > maxMemory:
		return refuse("modal.memory_limit", "a sandbox at Modal has at most %s, not %s", maxMemory, m.MemoryLimit)
	case m.MemoryLimit > 0 && spec.Memory == 0:
		return refuse("modal.memory_limit", "it needs --memory, the reserved memory")
	case m.PrivateIPv6 && closed:
		return refuse(
			"modal.private_ipv6",
			"it needs a network; to close the rest, use --network allow with an empty list",
		)
	case len(m.Headers) > 0 && closed:
		return refuse("modal.headers", "a sandbox without a network sends no requests")
	case len(m.Headers) > 0 && allowsDomains(spec.Network):
		return refuse("modal.headers", "Modal replaces no headers where the network allows single domains")
	case m.ImageSecret != "" && (spec.Snapshot != "" || ofModal(spec.Image)):
		return refuse("modal.image_secret", "an image that Modal has is not pulled from a registry")
	case m.MemorySnapshot && !spec.GPU.IsZero():
		return refuse("modal.memory_snapshot", "Modal cannot save the memory of a sandbox with a GPU")
	}
	for _, h := range m.Headers {
		for name, value := range h.Headers {
			if h.Secret == "" && refersToKey(value) {
				return refuse(
					"modal.headers", "%s of %s uses a variable of a secret, but no secret is set; $$ is a dollar sign", name,
					h.Domain,
				)
			}
		}
	}
	return nil
}

func allowsDomains(network core.Network) bool {
	_, domains := splitAllowed(network.Allow)
	return network.Mode == core.NetworkAllow && len(domains) > 0
}

// refersToKey reports whether a header's value contains $KEY or ${KEY}; $$ is a dollar sign.
func refersToKey(value string) bool {
	value = strings.ReplaceAll(value, "$$", "")
	for i := 0; i+1 < len(value); i++ {
		if c := value[i+1]; value[i] == '$' && (c == '_' || c == '{' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return true
		}
	}
	return false
}
