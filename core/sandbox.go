package core

import "time"

// Sandbox is a snapshot of a provider's information on one sandbox.
type Sandbox struct {
	// ID is assigned by the provider and never changes. Its prefix identifies the provider.
	ID       string `json:"id"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	App      string `json:"app,omitempty"`
	State    State  `json:"state"`
	// Reason is why the sandbox is not running; empty while it runs.
	Reason Reason `json:"reason,omitempty"`
	// Message explains Reason to the user: "memory use 520MiB is over the limit of 512MiB".
	Message string `json:"message,omitempty"`
	// Frozen means that the provider suspended an idle sandbox to save CPU.
	Frozen bool `json:"frozen,omitempty"`

	Image string `json:"image,omitempty"`
	// ImageID identifies the content of Image. On this machine it is the digest of the manifest, in an engine its id.
	ImageID string `json:"image_id,omitempty"`
	// RootFormat is "erofs" if the sandbox's kernel reads the image from an EROFS file. Otherwise it is "".
	RootFormat string `json:"root_format,omitempty"`

	GPU    GPU               `json:"gpu,omitzero"`
	Labels map[string]string `json:"labels,omitempty"`
	// Spec is the launch spec with defaults filled in and without secret values.
	Spec Spec `json:"spec"`
	// Omitted names the fields of Spec that were too long for the provider to store. They are empty in Spec.
	Omitted []string `json:"spec_omitted,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Expires is when the lifetime ends; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// LastActive is when a command last started, ran or ended in the sandbox.
	LastActive time.Time `json:"last_active,omitzero"`
	// ExitCode is the exit code of the entry command, as a shell reports it; nil until it has ended.
	ExitCode *int `json:"exit_code,omitempty"`

	Ports []PortMapping `json:"ports,omitempty"`
	// Runtime is the container runtime, where the provider has several: "runc", "crun", "runsc".
	Runtime string `json:"runtime,omitempty"`
	// Direct is a command that reaches a persistent sandbox without sb, where there is one.
	Direct string `json:"direct,omitempty"`
	Lease  Lease  `json:"lease"`
	// Size is the size of its files. Only reports of Prune and Service.Sized set it.
	Size Bytes `json:"size,omitempty"`
	// Cost is the lowest possible cost until now. The Service sets it where the provider has prices.
	Cost *Cost `json:"cost,omitempty"`
}

// Ref returns a reference that is unique across providers: PROVIDER/ID.
func (sb Sandbox) Ref() string { return sb.Provider + "/" + sb.ID }

// PortMapping is a published port and its current address.
type PortMapping struct {
	Sandbox int `json:"port"`
	// Address is host:port on the machine that published it.
	Address string `json:"address"`
}

// Lease records the owner and the lifetime of a sandbox. It is written before the sandbox exists, so that every sandbox
// has a known owner even after a crash.
type Lease struct {
	// Owner is the process, session or job that launched it.
	Owner Owner `json:"owner"`
	// Created is when the lease was written.
	Created time.Time `json:"created"`
	// Expires is when any sb may remove the sandbox; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Bound means that the sandbox is useless without its owner, as with "sb run". Any sb that finds the owner gone may
	// remove it.
	Bound bool `json:"bound,omitempty"`
	// Renewed means that the owner extends the sandbox's life step by step, as "sb mcp" does with Sandboxes.KeepAlive.
	// Without the owner, or another process that renews it, the sandbox ends. Sandboxes.SetTimeout turns this off.
	Renewed bool `json:"renewed,omitempty"`
}

// Owner identifies the process that launched a sandbox, well enough to check whether it still exists.
type Owner struct {
	// ID is shared by all processes of one user with one state directory of sb. It is unique to them.
	ID string `json:"id,omitempty"`
	// Actor is the frontend and, where there is one, its session: "cli", "ui", "mcp/9f3c".
	Actor string `json:"actor"`
	// User is the name of the user on the host, for display.
	User string `json:"user,omitempty"`
	// Host and BootID identify the machine and the boot in which PID is valid.
	Host   string `json:"host,omitempty"`
	BootID string `json:"boot_id,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// PIDStart is the process's start time in clock ticks since boot (proc(5), stat field 22).
	PIDStart uint64 `json:"pid_start,omitempty"`
}
