package core

import (
	"reflect"
	"slices"
)

// Capability names a feature that only some providers have.
type Capability string

// Capabilities that are an optional interface of the provider, as far as code names them.
const (
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
	CapStats            Capability = "stats"
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
	CapVolumeStore      Capability = "volume_store"
	CapSecretStore      Capability = "secret_store"
	CapImageStore       Capability = "image_store"
	CapImageBuild       Capability = "image_build"
	CapImageMount       Capability = "image_mount"
	CapImageEdit        Capability = "image_edit"
	CapImagePort        Capability = "image_port"
	CapImagePush        Capability = "image_push"
	CapImagePrune       Capability = "image_prune"
	CapAppStore         Capability = "app_store"
	CapEnvironmentStore Capability = "environment_store"
	CapSnapshotStore    Capability = "snapshot_store"
)

// Capabilities without an interface: a spec or the options of an operation can require them.
const (
	CapTTY     Capability = "tty"
	CapPersist Capability = "persist"
	CapUser    Capability = "user"
	CapGPU     Capability = "gpu"
	CapVolumes Capability = "volumes"
	// CapCopyOnWrite is Volume.CopyOnWrite.
	CapCopyOnWrite Capability = "copy_on_write"

	CapBuild     Capability = "build"     // Dockerfile, Python, Pip, Apt
	CapImages    Capability = "images"    // any OCI image, beyond Capabilities.Images
	CapPull      Capability = "pull"      // Spec.Pull other than PullMissing
	CapTemplates Capability = "templates" // Spec.Template
	CapModal     Capability = "modal"     // Spec.Modal

	CapSnapshotTTL  Capability = "snapshot_ttl"  // SnapshotOptions.TTL
	CapSnapshotPath Capability = "snapshot_path" // SnapshotOptions.Path

	CapReadOnly Capability = "read_only" // Spec.ReadOnly
	CapTmpfs    Capability = "tmpfs"     // Spec.Tmpfs
	CapShmSize  Capability = "shm_size"  // Spec.ShmSize
	CapDNS      Capability = "dns"       // Spec.DNS

	CapPorts   Capability = "ports"
	CapPortTLS Capability = "port_tls" // the protocols https and h2 of Port
	CapInbound Capability = "inbound"  // Spec.Inbound

	CapNetNone     Capability = "network_none"
	CapNetAll      Capability = "network_all"
	CapNetAllow    Capability = "network_allow"
	CapNetInternal Capability = "network_internal"
	CapNetHost     Capability = "network_host" // AllowHost in Network.Allow

	CapCPU       Capability = "cpu"
	CapMemory    Capability = "memory"
	CapDisk      Capability = "disk"
	CapProcesses Capability = "processes"
	CapOpenFiles Capability = "open_files"
	CapTimeout   Capability = "timeout"
	CapNoTimeout Capability = "no_timeout" // Spec.Timeout may be NoTimeout
	CapIdle      Capability = "idle_timeout"
)

// interfaces are the optional interfaces of a provider and their capabilities.
func interfaces() []feature {
	return []feature{
		featureOf[Finder]("find"),
		featureOf[Waiter](CapWait),
		featureOf[Stopper](CapStop),
		featureOf[Pauser](CapPause),
		featureOf[Renewer](CapRenew),
		featureOf[ReadyWaiter](CapReady),
		featureOf[Journaler](CapJournal),
		featureOf[ExecFinder]("exec_end"),
		featureOf[Attacher](CapAttach),
		featureOf[LogReader](CapLogs),
		featureOf[FileSystem](CapFiles),
		featureOf[FileWatcher](CapFileWatch),
		featureOf[Ender]("end_code"),
		featureOf[StatsReader](CapStats),
		featureOf[Sizer]("size"),
		featureOf[Watcher](CapWatch),
		featureOf[Forker](CapFork),
		featureOf[Checkpointer](CapCheckpoint),
		featureOf[Snapshotter](CapSnapshots),
		featureOf[Differ](CapDiff),
		featureOf[NetworkPolicer](CapNetworkUpdate),
		featureOf[DenialReader](CapDenials),
		featureOf[Tunneler](CapTunnels),
		featureOf[PortForwarder](CapPortForward),
		featureOf[Enforcer](CapEnforce),
		featureOf[SecretLister]("given_secrets"),
		featureOf[Sweeper]("sweep"),
		featureOf[Doctor]("doctor"),
		featureOf[VolumeStore](CapVolumeStore),
		featureOf[SecretStore](CapSecretStore),
		featureOf[ImageStore](CapImageStore),
		featureOf[ImageBuilder](CapImageBuild),
		featureOf[ImageMounter](CapImageMount),
		featureOf[ImageEditor](CapImageEdit),
		featureOf[ImagePorter](CapImagePort),
		featureOf[ImagePusher](CapImagePush),
		featureOf[ImagePruner](CapImagePrune),
		featureOf[AppStore](CapAppStore),
		featureOf[EnvironmentStore](CapEnvironmentStore),
		featureOf[SnapshotStore](CapSnapshotStore),
	}
}

type feature struct {
	name Capability
	of   reflect.Type
	in   func(Provider) bool
}

func featureOf[T any](name Capability) feature {
	return feature{name, reflect.TypeFor[T](), func(p Provider) bool { _, ok := p.(T); return ok }}
}

// Implemented returns the capabilities whose optional interface p has. Capabilities.Has consists of two parts: these,
// without those that the engine or the runtime behind p lacks, and the capabilities without an interface.
func Implemented(p Provider) []Capability {
	var has []Capability
	for _, feature := range interfaces() {
		if feature.in(p) {
			has = append(has, feature.name)
		}
	}
	return has
}

// CapabilityOf returns the capability whose optional interface is T, or "" if there is none.
func CapabilityOf[T any]() Capability {
	for _, feature := range interfaces() {
		if feature.of == reflect.TypeFor[T]() {
			return feature.name
		}
	}
	return ""
}

// Optional returns p as the optional interface T, if p has the interface and names its capability.
func Optional[T any](p Provider) (T, bool) {
	t, ok := p.(T)
	return t, ok && p.Capabilities().Can(CapabilityOf[T]())
}

// Capabilities describes a provider's features as data.
type Capabilities struct {
	// Has lists the capabilities, in no order. A provider starts it with Implemented.
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
