package core

import "maps"

// Spec is what a launch asks for, the same for all providers. A zero field means
// the provider's default. The JSON names are the field names of spec files.
type Spec struct {
	// Provider is a provider's name, or "auto" or "" for placement to choose.
	Provider string `json:"provider,omitempty"`
	// App groups sandboxes; "" is the default app.
	App string `json:"app,omitempty"`
	// Name is unique among a provider's live sandboxes; "" lets the service make one.
	Name string `json:"name,omitempty"`

	// At most one of Image, Dockerfile, Template, Snapshot and Checkpoint is set.
	Image      string   `json:"image,omitempty"`
	Dockerfile string   `json:"dockerfile,omitempty"`
	Template   string   `json:"template,omitempty"`
	Snapshot   string   `json:"snapshot,omitempty"`
	Checkpoint string   `json:"checkpoint,omitempty"`
	Python     string   `json:"python,omitempty"` // a version: "3.12"
	Pip        []string `json:"pip,omitempty"`
	Apt        []string `json:"apt,omitempty"`

	CPU       float64 `json:"cpu,omitempty"` // cores
	Memory    Bytes   `json:"memory,omitempty"`
	Disk      Bytes   `json:"disk,omitempty"`       // what the sandbox may write
	Processes int     `json:"processes,omitempty"`  // at the same time
	OpenFiles int     `json:"open_files,omitempty"` // per process
	GPU       GPU     `json:"gpu,omitzero"`

	// Timeout ends the sandbox that long after its launch, or after its latest start; "none" never does.
	Timeout Duration `json:"timeout,omitempty"`
	// IdleTimeout ends it when no command ran in it for that long; "none" never does.
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	// Persist keeps the filesystem over stop and start, and over a crash up to the last save.
	Persist bool `json:"persist,omitempty"`
	// MaxCost ends it before it has cost more, in the currency of the provider's prices. A provider without prices costs nothing.
	MaxCost float64 `json:"max_cost,omitempty"`

	Workdir string            `json:"workdir,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Secrets []Secret          `json:"secrets,omitempty"`
	User    string            `json:"user,omitempty"` // name or uid[:gid] inside
	Volumes []Volume          `json:"volumes,omitempty"`
	Ports   []Port            `json:"ports,omitempty"`
	Network Network           `json:"network,omitzero"`
	// Inbound lists the CIDRs that may connect to published ports; empty lets everybody.
	Inbound []string          `json:"inbound,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	// Command is the entry command. Its end ends the sandbox; without one the
	// sandbox lives until its timeout, its idle timeout or terminate.
	Command []string `json:"command,omitempty"`
	// Require launches only where each limit and policy that the launch names is held fully. Limits that the defaults
	// of the configuration add are left out.
	Require bool `json:"require,omitempty"`
	// Ready is how it is seen that the sandbox is ready for those it serves; Service.WaitReady waits for it.
	Ready *Probe `json:"ready,omitempty"`

	// Modal is what only Modal has. With it no other provider is chosen.
	Modal *ModalSpec `json:"modal,omitempty"`
}

// Clone returns a copy that shares nothing mutable with s.
func (s Spec) Clone() Spec {
	s.Pip = append([]string(nil), s.Pip...)
	s.Apt = append([]string(nil), s.Apt...)
	s.Secrets = append([]Secret(nil), s.Secrets...)
	s.Volumes = append([]Volume(nil), s.Volumes...)
	s.Ports = append([]Port(nil), s.Ports...)
	s.Command = append([]string(nil), s.Command...)
	s.Network.Allow = append([]string(nil), s.Network.Allow...)
	s.Inbound = append([]string(nil), s.Inbound...)
	s.Ready = s.Ready.clone()
	s.Modal = s.Modal.clone()
	s.Env = maps.Clone(s.Env)
	s.Labels = maps.Clone(s.Labels)
	return s
}

// Redacted returns a copy whose secrets have names but no values.
func (s Spec) Redacted() Spec {
	s = s.Clone()
	for i := range s.Secrets {
		s.Secrets[i].Value = SecretValue{}
	}
	return s
}

// NetworkMode says where a sandbox may connect to.
type NetworkMode string

const (
	// NetworkDefault leaves the choice to the configuration.
	NetworkDefault NetworkMode = ""
	// NetworkNone gives the sandbox its own loopback and nothing else.
	NetworkNone NetworkMode = "none"
	// NetworkAll lets it reach the outside, never the host's own loopback,
	// link-local or cloud metadata addresses.
	NetworkAll NetworkMode = "all"
	// NetworkAllow lets it reach what Network.Allow lists.
	NetworkAllow NetworkMode = "allow"
	// NetworkInternal lets it reach the sandboxes of its app and provider that have this mode, too, and nothing else:
	// not the outside, and not the host.
	NetworkInternal NetworkMode = "internal"
)

// Network is a sandbox's network policy.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"`
	// Allow lists domains ("pypi.org", "*.pypi.org") and CIDRs, for NetworkAllow only.
	Allow []string `json:"allow,omitempty"`
}

// Volume mounts a named volume or, where the provider allows it, a host directory.
type Volume struct {
	// Source is a volume's name or an absolute host path.
	Source string `json:"source"`
	// Target is an absolute path inside.
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// PortProtocol says what stands between a published port and those who connect to it.
type PortProtocol string

const (
	// PortDefault is the provider's usual one: "tcp" on this machine, "https" in a cloud.
	PortDefault PortProtocol = ""
	// PortTCP passes bytes on as they are.
	PortTCP PortProtocol = "tcp"
	// PortHTTPS ends TLS in front of the sandbox.
	PortHTTPS PortProtocol = "https"
	// PortH2 is PortHTTPS with HTTP/2 up to the sandbox, as gRPC needs it.
	PortH2 PortProtocol = "h2"
)

// Port publishes a port of the sandbox: on the host's loopback, or where the provider is reached.
type Port struct {
	// Host is the port on the host; 0 chooses a free one.
	Host int `json:"host,omitempty"`
	// Sandbox is the port inside, 1 to 65535.
	Sandbox int `json:"port"`
	// Protocol is "tcp", "https" or "h2"; without one it is the provider's usual one.
	Protocol PortProtocol `json:"protocol,omitempty"`
}
