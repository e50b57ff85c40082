package core

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Spec is a request to launch a sandbox, the same for all providers. Zero fields use the provider's defaults. The JSON
// names are the field names of spec files.
type Spec struct {
	// Provider is a provider's name; "auto" and "" let placement choose.
	Provider string `json:"provider,omitempty"`
	// App groups sandboxes; "" is the default app.
	App string `json:"app,omitempty"`
	// Name is unique among a provider's live sandboxes; "" lets the service choose one.
	Name string `json:"name,omitempty"`

	// At most one of Image, Dockerfile, Template, Snapshot and Checkpoint is set.
	Image      string `json:"image,omitempty"`
	Dockerfile string `json:"dockerfile,omitempty"`
	Template   string `json:"template,omitempty"`
	Snapshot   string `json:"snapshot,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	// Pull decides when Image is downloaded. It has no effect on other sources.
	Pull   PullPolicy `json:"pull,omitempty"`
	Python string     `json:"python,omitempty"` // a version: "3.12"
	Pip    []string   `json:"pip,omitempty"`
	Apt    []string   `json:"apt,omitempty"`

	CPU       float64 `json:"cpu,omitempty"` // cores
	Memory    Bytes   `json:"memory,omitempty"`
	Disk      Bytes   `json:"disk,omitempty"`       // writable space
	Processes int     `json:"processes,omitempty"`  // maximum number
	OpenFiles int     `json:"open_files,omitempty"` // per process
	ShmSize   Bytes   `json:"shm_size,omitempty"`   // of /dev/shm
	GPU       GPU     `json:"gpu,omitzero"`

	// Timeout ends the sandbox this long after its launch or latest start; "none" means no limit.
	Timeout Duration `json:"timeout,omitempty"`
	// IdleTimeout ends it after this long without a running command; "none" means no limit.
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	// Persist keeps the filesystem over stop and start. After a crash it has the state of the last save.
	Persist bool `json:"persist,omitempty"`
	// MaxCost ends the sandbox before its cost exceeds this amount, in the currency of the provider's prices. Sandboxes of
	// a provider without prices cost nothing.
	MaxCost float64 `json:"max_cost,omitempty"`

	Workdir string            `json:"workdir,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Secrets []Secret          `json:"secrets,omitempty"`
	User    string            `json:"user,omitempty"` // name or uid[:gid] inside
	Volumes []Volume          `json:"volumes,omitempty"`
	// ReadOnly lets nothing change the image's files. Volumes, Tmpfs and a tmpfs at /tmp stay writable.
	ReadOnly bool `json:"read_only,omitempty"`
	// Tmpfs are directories in memory. They are empty at each start.
	Tmpfs   []Tmpfs `json:"tmpfs,omitempty"`
	Ports   []Port  `json:"ports,omitempty"`
	Network Network `json:"network,omitzero"`
	// DNS lists the addresses of the name servers, for NetworkAll and NetworkAllow only. Empty means the provider's.
	DNS []string `json:"dns,omitempty"`
	// Inbound lists the CIDRs that may connect to published ports; empty means all addresses.
	Inbound []string          `json:"inbound,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	// Command is the entry command. The sandbox ends when it ends. Without one, the sandbox runs until its timeout, its
	// idle timeout or terminate.
	Command []string `json:"command,omitempty"`
	// Require rejects a launch unless every limit and policy of the sandbox is fully enforced, those from the
	// configuration's defaults included. A default that the provider does not support is no limit of the sandbox.
	Require bool `json:"require,omitempty"`
	// Ready is the readiness check. "sb wait --ready" waits for it.
	Ready *Probe `json:"ready,omitempty"`

	// Modal has the settings that only Modal supports. If set, only Modal can be chosen.
	Modal json.RawMessage `json:"modal,omitempty"`
}

// Clone returns a deep copy.
func (s Spec) Clone() Spec {
	s.Pip = append([]string(nil), s.Pip...)
	s.Apt = append([]string(nil), s.Apt...)
	s.Secrets = append([]Secret(nil), s.Secrets...)
	s.Volumes = append([]Volume(nil), s.Volumes...)
	s.Tmpfs = append([]Tmpfs(nil), s.Tmpfs...)
	s.DNS = append([]string(nil), s.DNS...)
	s.Ports = append([]Port(nil), s.Ports...)
	s.Command = append([]string(nil), s.Command...)
	s.Network.Allow = append([]string(nil), s.Network.Allow...)
	s.Inbound = append([]string(nil), s.Inbound...)
	s.Ready = s.Ready.clone()
	s.Modal = slices.Clone(s.Modal)
	s.Env = maps.Clone(s.Env)
	s.Labels = maps.Clone(s.Labels)
	return s
}

// Redacted returns a copy without the values of secrets.
func (s Spec) Redacted() Spec {
	s = s.Clone()
	for i := range s.Secrets {
		s.Secrets[i].Value = SecretValue{}
	}
	return s
}

// NetworkMode is the kind of destinations that a sandbox may connect to.
type NetworkMode string

const (
	// NetworkDefault uses the mode in the configuration.
	NetworkDefault NetworkMode = ""
	// NetworkNone gives the sandbox only its own loopback.
	NetworkNone NetworkMode = "none"
	// NetworkAll allows all outside addresses, but not those of the host, and never link-local or cloud metadata ones.
	NetworkAll NetworkMode = "all"
	// NetworkAllow allows only the destinations in Network.Allow.
	NetworkAllow NetworkMode = "allow"
	// NetworkInternal allows only sandboxes of the same app and provider that also have this mode. It excludes the outside
	// and the host.
	NetworkInternal NetworkMode = "internal"
)

// AllowHost in Network.Allow opens the addresses of the machine that runs the sandbox. It needs CapNetHost.
const AllowHost = "host"

// Network is a sandbox's network policy.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"`
	// Allow lists domains ("pypi.org", "*.pypi.org") and CIDRs, for NetworkAllow only.
	// AllowHost also goes with NetworkAll.
	Allow []string `json:"allow,omitempty"`
}

// Volume mounts a named volume or, where the provider allows it, a host directory.
type Volume struct {
	// Source is a volume's name or the path of a host directory: IsPath.
	Source string `json:"source"`
	// Target is an absolute path in the sandbox.
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// CopyOnWrite shows a host directory, and keeps what the sandbox writes there in the sandbox's own layer. The host's
	// files never change. It needs CapCopyOnWrite and excludes ReadOnly.
	CopyOnWrite bool `json:"copy_on_write,omitempty"`
}

// IsPath reports whether Source is the path of a host directory. Such a path begins with "/", "./", "../" or "~/", or
// is ".", ".." or "~".
func (v Volume) IsPath() bool {
	first, _, _ := strings.Cut(v.Source, "/")
	return first == "" || first == "." || first == ".." || first == "~"
}

// Tmpfs is a directory in memory. Its content counts toward the sandbox's memory.
type Tmpfs struct {
	// Target is an absolute path in the sandbox.
	Target string `json:"target"`
	// Size bounds its content; 0 means the provider's bound.
	Size Bytes `json:"size,omitempty"`
}

// PortProtocol is the protocol between clients and a published port.
type PortProtocol string

const (
	// PortDefault is the provider's default: "tcp" on this machine, "https" in a cloud.
	PortDefault PortProtocol = ""
	// PortTCP forwards bytes unchanged.
	PortTCP PortProtocol = "tcp"
	// PortHTTPS terminates TLS in front of the sandbox.
	PortHTTPS PortProtocol = "https"
	// PortH2 is PortHTTPS with HTTP/2 to the sandbox, as gRPC requires.
	PortH2 PortProtocol = "h2"
)

// Port publishes a port of the sandbox: on the host's loopback, or at the provider's address.
type Port struct {
	// Host is the port on the host; 0 chooses a free one.
	Host int `json:"host,omitempty"`
	// Sandbox is the port in the sandbox, 1 to 65535.
	Sandbox int `json:"port"`
	// Protocol is "tcp", "https" or "h2"; "" means the provider's default.
	Protocol PortProtocol `json:"protocol,omitempty"`
}
