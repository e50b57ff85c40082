package core

import "time"

// Sandbox is what a provider knows of one sandbox at one moment.
type Sandbox struct {
	// ID is assigned by the provider and never changes. Its prefix tells the provider.
	ID       string `json:"id"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	App      string `json:"app,omitempty"`
	State    State  `json:"state"`
	// Reason says why the sandbox is not running; empty while it is.
	Reason Reason `json:"reason,omitempty"`
	// Message explains Reason to a person: "memory use 520MiB is over the limit of 512MiB".
	Message string `json:"message,omitempty"`
	// Frozen says that the provider suspended an idle sandbox to save CPU.
	Frozen bool `json:"frozen,omitempty"`

	Image  string            `json:"image,omitempty"`
	GPU    GPU               `json:"gpu,omitzero"`
	Labels map[string]string `json:"labels,omitempty"`
	// Spec is the launch spec with defaults filled in and secrets without values.
	Spec Spec `json:"spec"`
	// Omitted names the fields of Spec that were too long for what the provider keeps of a sandbox: they are empty there.
	Omitted []string `json:"spec_omitted,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Expires is when the lifetime ends; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// LastActive is when a command last started, ran or ended in it.
	LastActive time.Time `json:"last_active,omitzero"`
	// ExitCode is the entry command's code, as a shell would report it, once it ended.
	ExitCode *int `json:"exit_code,omitempty"`

	Ports []PortMapping `json:"ports,omitempty"`
	// Runtime is what runs the container, where a provider has several: "runc", "crun", "runsc".
	Runtime string `json:"runtime,omitempty"`
	// Direct is a command that reaches a persistent sandbox without sb, where there is one.
	Direct string `json:"direct,omitempty"`
	Lease  Lease  `json:"lease"`
	// Size is what its files take, where that was looked at: in a report of Prune and by Service.Sized.
	Size Bytes `json:"size,omitempty"`
	// Cost is what it has cost until now, at least. The Service fills it in where the provider has prices.
	Cost *Cost `json:"cost,omitempty"`
}

// Ref is a reference that no other sandbox has, wherever it is: PROVIDER/ID.
func (sb Sandbox) Ref() string { return sb.Provider + "/" + sb.ID }

// PortMapping is a published port as it is reachable now.
type PortMapping struct {
	Sandbox int `json:"port"`
	// Address is host:port on the machine that published it.
	Address string `json:"address"`
}

// Lease says who a sandbox is for and until when. It is written before the
// sandbox exists, so that no crash can leave one behind that nobody owns.
type Lease struct {
	// Owner is the process, session or job that asked.
	Owner Owner `json:"owner"`
	// Created is when the lease was written.
	Created time.Time `json:"created"`
	// Expires is when the sandbox may be reaped by any sb; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Bound says that the sandbox is of no use once its owner is gone, as with
	// "sb run": an sb that finds the owner dead may reap it.
	Bound bool `json:"bound,omitempty"`
	// Renewed says that the owner keeps the sandbox alive for a while at a time, as "sb mcp" does
	// (Service.KeepAlive): once the owner is gone it ends by itself, unless somebody else takes over.
	// Service.SetTimeout ends that.
	Renewed bool `json:"renewed,omitempty"`
}

// Owner identifies who asked for a sandbox, well enough to tell whether they still exist.
type Owner struct {
	// ID is the same for all that one user launches with one state directory of sb, and no one else's.
	ID string `json:"id,omitempty"`
	// Actor is the frontend and, where there is one, its session: "cli", "ui", "mcp/9f3c".
	Actor string `json:"actor"`
	// User is the name of the person on the host, for display.
	User string `json:"user,omitempty"`
	// Host and BootID name the machine and its boot that PID belongs to.
	Host   string `json:"host,omitempty"`
	BootID string `json:"boot_id,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// PIDStart is the process's start time in clock ticks since boot (proc(5), stat field 22).
	PIDStart uint64 `json:"pid_start,omitempty"`
}
