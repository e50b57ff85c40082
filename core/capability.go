package core

import "slices"

// Capability names one thing that only some providers can do.
type Capability string

// The capabilities with an optional interface, which a provider has exactly if it names the capability.
const (
	CapFinder           Capability = "find"
	CapWait             Capability = "wait"
	CapStop             Capability = "stop"
	CapPause            Capability = "pause"
	CapRenew            Capability = "renew"
	CapReady            Capability = "ready"
	CapJournal          Capability = "journal"
	CapAttach           Capability = "attach"
	CapLogs             Capability = "logs"
	CapFiles            Capability = "files"
	CapFileWatch        Capability = "file_watch"
	CapEndCode          Capability = "end_code" // Ender
	CapStats            Capability = "stats"
	CapSize             Capability = "size"
	CapWatch            Capability = "watch"
	CapFork             Capability = "fork"
	CapCheckpoint       Capability = "checkpoint" // Spec.Checkpoint, too
	CapSnapshots        Capability = "snapshots"  // Spec.Snapshot, too
	CapDiff             Capability = "diff"
	CapNetworkUpdate    Capability = "network_update"
	CapDenials          Capability = "denials"
	CapTunnels          Capability = "tunnels"
	CapPortForward      Capability = "port_forward"
	CapEnforce          Capability = "enforce"
	CapGivenSecrets     Capability = "given_secrets" // SecretTeller
	CapSweep            Capability = "sweep"
	CapDoctor           Capability = "doctor"
	CapVolumeStore      Capability = "volume_store"
	CapSecretStore      Capability = "secret_store"
	CapImageStore       Capability = "image_store"
	CapImageMount       Capability = "image_mount"
	CapAppStore         Capability = "app_store"
	CapEnvironmentStore Capability = "environment_store"
	CapSnapshotStore    Capability = "snapshot_store"
)

// The capabilities that a spec or the options of an operation can require.
const (
	CapTTY       Capability = "tty"
	CapPersist   Capability = "persist"
	CapUser      Capability = "user"
	CapGPU       Capability = "gpu"
	CapVolumes   Capability = "volumes"
	CapBuild     Capability = "build"     // Dockerfile, Python, Pip, Apt
	CapImages    Capability = "images"    // any OCI image, beyond Capabilities.Images
	CapTemplates Capability = "templates" // Spec.Template
	CapModal     Capability = "modal"     // Spec.Modal

	CapSnapshotTTL  Capability = "snapshot_ttl"  // SnapshotOptions.TTL
	CapSnapshotPath Capability = "snapshot_path" // SnapshotOptions.Path

	CapPorts   Capability = "ports"
	CapPortTLS Capability = "port_tls" // the protocols https and h2 of Port
	CapInbound Capability = "inbound"  // Spec.Inbound

	CapNetNone     Capability = "network_none"
	CapNetAll      Capability = "network_all"
	CapNetAllow    Capability = "network_allow"
	CapNetInternal Capability = "network_internal"

	CapCPU       Capability = "cpu"
	CapMemory    Capability = "memory"
	CapDisk      Capability = "disk"
	CapProcesses Capability = "processes"
	CapOpenFiles Capability = "open_files"
	CapTimeout   Capability = "timeout"
	CapNoTimeout Capability = "no_timeout" // Spec.Timeout may be NoTimeout
	CapIdle      Capability = "idle_timeout"
)

// Capabilities describes a provider's features as data. The contract suite checks it against the optional interfaces of
// the provider.
type Capabilities struct {
	// Has lists the capabilities.
	Has []Capability `json:"has"`
	// Images lists the image names that need no registry: "host". The first is the default.
	Images []string `json:"images,omitempty"`
	// GPUs lists the GPU types, each with the highest count for one sandbox.
	GPUs map[string]int `json:"gpus,omitempty"`
	// GPUPrices has the price of one GPU of each type as text: "3.95 USD/h". Types without a known price are absent.
	GPUPrices map[string]string `json:"gpu_prices,omitempty"`
	// Remote means that the provider is reached over a network that may be slow or absent.
	Remote bool `json:"remote,omitempty"`
	// Shared means that other users and other state directories may have sandboxes at this provider.
	Shared bool `json:"shared,omitempty"`
	// Isolation names in a few words the boundary between a sandbox and the host.
	Isolation string `json:"isolation"`
}

// Can reports whether c is among the capabilities.
func (c Capabilities) Can(want Capability) bool {
	return slices.Contains(c.Has, want)
}
