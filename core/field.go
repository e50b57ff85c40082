package core

import (
	"reflect"
	"slices"
	"strings"
)

// Field is one field of Spec: its names, its help, and the capability that it requires. Flags, tools, settings and
// forms read them here.
type Field struct {
	// Name is the name in JSON and spec files: "idle_timeout".
	Name string
	// Flag is the long flag of "sb launch" without dashes, and Letter its short one. Both may be "".
	Flag, Letter string
	// Doc is a short description. A word in backquotes names the value: "image `NAME`".
	Doc string
	// Label and Hint are the field's name and an example of its value in a form.
	Label, Hint string
	// Need is the capability that every value requires, or "".
	Need Capability
	// Choices are the valid values, the default first. It is nil if there are others.
	Choices []string
	// Limit means that the value limits what runs in the sandbox. NoTimeout is no limit.
	Limit bool

	ref   func(*Spec) any
	check func(Spec) error
}

// Ref returns a pointer to the field in s.
func (f Field) Ref(s *Spec) any { return f.ref(s) }

// Value returns the field's value in s.
func (f Field) Value(s Spec) any { return f.value(&s).Interface() }

// IsZero reports whether s leaves the field open. An empty list is open.
func (f Field) IsZero(s Spec) bool {
	value := f.value(&s)
	if kind := value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		return value.Len() == 0
	}
	return value.IsZero()
}

// Clear leaves the field open.
func (f Field) Clear(s *Spec) { f.value(s).SetZero() }

// Copy sets the field of to to that of from. Both share what the value points to.
func (f Field) Copy(to *Spec, from Spec) { f.value(to).Set(f.value(&from)) }

// Fill is Copy if to leaves the field open.
func (f Field) Fill(to *Spec, from Spec) {
	if f.IsZero(*to) {
		f.Copy(to, from)
	}
}

func (f Field) value(s *Spec) reflect.Value { return reflect.ValueOf(f.ref(s)).Elem() }

// Help returns Doc for readers who see no command line: without backquotes, and with a plain NAME as "name".
func (f Field) Help() string {
	before, rest, quoted := strings.Cut(f.Doc, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !quoted || !closed {
		return f.Doc
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		name = strings.ToLower(name)
	}
	return before + name + after
}

// FieldNamed returns the field with a name in JSON. It panics if there is none.
func FieldNamed(name string) Field {
	fields := Fields()
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		panic("core: Spec has no field " + name)
	}
	return fields[i]
}

// Fields lists the fields of Spec in the order of the help.
func Fields() []Field {
	return slices.Concat(sourceFields(), limitFields(), insideFields())
}

// sourceFields say where a sandbox runs and what it starts from.
func sourceFields() []Field {
	return []Field{
		{
			Name: "provider", Flag: "provider",
			Doc:   "provider `NAME`, or auto for the first that supports the sandbox (default auto)",
			Label: "Provider", Hint: "auto picks the first that fits",
			ref: func(s *Spec) any { return &s.Provider },
		},
		{
			Name: "app", Flag: "app", Doc: "app `NAME` that groups sandboxes",
			ref: func(s *Spec) any { return &s.App }, check: func(s Spec) error { return validateOptionalName("app", s.App) },
		},
		{
			Name: "name", Flag: "name", Letter: "n",
			Doc:   "`NAME`, unique among the provider's live sandboxes (default: generated)",
			Label: "Name", Hint: "empty generates one",
			ref: func(s *Spec) any { return &s.Name }, check: func(s Spec) error { return validateOptionalName("name", s.Name) },
		},
		{
			Name: "image", Flag: "image",
			Doc:   "image `NAME`, such as python:3.12 (default: the provider's; host is this machine's programs)",
			Label: "Image", Hint: "any OCI image",
			ref: func(s *Spec) any { return &s.Image },
		},
		{
			Name: "pull", Flag: "pull", Doc: "`WHEN` to download the image: missing, always or never (default missing)",
			Label: "Pull", Hint: "when to download the image", Choices: PullPolicies(),
			ref: func(s *Spec) any { return &s.Pull }, check: Spec.checkPull,
		},
		{
			Name: "dockerfile", Flag: "dockerfile", Doc: "build the image from `FILE`", Need: CapBuild,
			ref: func(s *Spec) any { return &s.Dockerfile },
		},
		{
			Name: "template", Flag: "template", Doc: "template `NAME` to start from", Need: CapTemplates,
			Label: "Template", Hint: "the provider's, instead of an image",
			ref: func(s *Spec) any { return &s.Template },
		},
		{
			Name: "snapshot", Flag: "snapshot", Doc: "snapshot `ID` to start from", Need: CapSnapshots,
			Label: "Snapshot", Hint: "instead of an image",
			ref: func(s *Spec) any { return &s.Snapshot },
		},
		{
			Name: "checkpoint", Flag: "checkpoint", Need: CapCheckpoint,
			Doc:   "checkpoint `NAME` to restore, memory included; other options override its settings",
			Label: "Checkpoint", Hint: "restores memory and files",
			ref: func(s *Spec) any { return &s.Checkpoint },
		},
		{
			Name: "python", Flag: "python", Doc: "Python `VERSION` to install, such as 3.12", Need: CapBuild,
			ref: func(s *Spec) any { return &s.Python }, check: Spec.checkPython,
		},
		{
			Name: "pip", Flag: "pip", Doc: "Python `PACKAGES` to install", Need: CapBuild,
			ref: func(s *Spec) any { return &s.Pip }, check: func(s Spec) error { return validatePackages(s.Pip) },
		},
		{
			Name: "apt", Flag: "apt", Doc: "Debian `PACKAGES` to install", Need: CapBuild,
			ref: func(s *Spec) any { return &s.Apt }, check: func(s Spec) error { return validatePackages(s.Apt) },
		},
	}
}

// limitFields say how much a sandbox may use.
func limitFields() []Field {
	return []Field{
		{
			Name: "cpu", Flag: "cpu", Doc: "`CORES` of CPU", Label: "CPU", Hint: "cores", Need: CapCPU, Limit: true,
			ref: func(s *Spec) any { return &s.CPU }, check: Spec.checkCPU,
		},
		{
			Name: "memory", Flag: "memory", Letter: "m", Doc: "memory limit, such as 512MiB or 2G", Need: CapMemory, Limit: true,
			Label: "Memory", Hint: sizeHint,
			ref: func(s *Spec) any { return &s.Memory }, check: Spec.checkMemory,
		},
		{
			Name: "disk", Flag: "disk", Doc: "limit of the files that the sandbox writes, such as 10G", Need: CapDisk,
			Limit: true,
			Label: "Disk", Hint: sizeHint,
			ref: func(s *Spec) any { return &s.Disk }, check: Spec.checkDisk,
		},
		{
			Name: "processes", Flag: "processes", Doc: "limit of processes at the same time", Need: CapProcesses, Limit: true,
			ref:   func(s *Spec) any { return &s.Processes },
			check: func(s Spec) error { return validateCount("processes", s.Processes, maxProcesses) },
		},
		{
			Name: "open_files", Flag: "open-files", Doc: "limit of open files per process", Need: CapOpenFiles, Limit: true,
			ref:   func(s *Spec) any { return &s.OpenFiles },
			check: func(s Spec) error { return validateCount("open_files", s.OpenFiles, maxOpenFiles) },
		},
		{
			Name: "shm_size", Flag: "shm-size", Doc: "size of /dev/shm, such as 256MiB", Need: CapShmSize, Limit: true,
			ref: func(s *Spec) any { return &s.ShmSize }, check: Spec.checkShmSize,
		},
		{
			Name: "gpu", Flag: "gpu", Doc: "GPUs, as `TYPE[:COUNT]`, such as H100 or A100-80GB:4", Need: CapGPU,
			Label: "GPU", Hint: "TYPE or TYPE:COUNT",
			ref: func(s *Spec) any { return &s.GPU },
		},
		{
			Name: "timeout", Flag: "timeout", Label: "Timeout", Hint: timeoutHint, Limit: true,
			Doc:   "end the sandbox this long after its launch or latest start, such as 90s or 2h; 0 is no limit",
			ref:   func(s *Spec) any { return &s.Timeout },
			check: func(s Spec) error { return validateTimeout("timeout", s.Timeout) },
		},
		{
			Name: "idle_timeout", Flag: "idle-timeout", Label: "Idle timeout", Hint: timeoutHint, Limit: true,
			Doc:   "end the sandbox after this long without a running command; 0 is no limit",
			ref:   func(s *Spec) any { return &s.IdleTimeout },
			check: func(s Spec) error { return validateTimeout("idle_timeout", s.IdleTimeout) },
		},
		{
			Name: "max_cost", Flag: "max-cost",
			Doc: "end the sandbox before it has cost more than `AMOUNT` in the currency of the provider's prices",
			ref: func(s *Spec) any { return &s.MaxCost }, check: Spec.checkMaxCost,
		},
		{
			Name: "persist", Flag: "persist", Doc: "keep the files across stop and start", Need: CapPersist,
			Label: "Persistent", Hint: "files survive stop and start",
			ref: func(s *Spec) any { return &s.Persist },
		},
	}
}

// insideFields describe what runs in a sandbox and whom it reaches.
func insideFields() []Field {
	return []Field{
		{
			Name: "workdir", Flag: "workdir", Letter: "w", Doc: "working directory `DIR` of commands",
			ref: func(s *Spec) any { return &s.Workdir }, check: Spec.checkWorkdir,
		},
		{
			Name: "user", Flag: "user", Letter: "u", Doc: "run as `USER[:GROUP]`, names or numbers inside", Need: CapUser,
			ref: func(s *Spec) any { return &s.User }, check: Spec.checkUser,
		},
		{
			Name: "env", Flag: "env", Letter: "e", Doc: "environment variables", Label: "Environment",
			Hint: "NAME=VALUE NAME='TWO WORDS'",
			ref:  func(s *Spec) any { return &s.Env },
		},
		{
			Name: "secrets", Flag: "secret", Doc: "environment variables whose values are kept out of output and logs",
			ref: func(s *Spec) any { return &s.Secrets },
		},
		{
			Name: "volumes", Flag: "volume", Letter: "v", Doc: "mount `SOURCE:TARGET[:ro|:cow]`", Need: CapVolumes,
			ref: func(s *Spec) any { return &s.Volumes }, check: Spec.checkVolumes,
		},
		{
			Name: "read_only", Flag: "read-only", Need: CapReadOnly, Limit: true,
			Doc: "make the image's files read-only; volumes, --tmpfs and /tmp, a tmpfs, stay writable",
			ref: func(s *Spec) any { return &s.ReadOnly },
		},
		{
			Name: "tmpfs", Flag: "tmpfs", Need: CapTmpfs,
			Doc: "mount a directory in memory at `PATH[:SIZE]`, such as /scratch:64MiB",
			ref: func(s *Spec) any { return &s.Tmpfs }, check: Spec.checkTmpfs,
		},
		{
			Name: "ports", Flag: "port", Letter: "p", Need: CapPorts,
			Doc: "publish `[HOST:]PORT[/PROTOCOL]` on this machine's loopback, or at an address of the cloud; " +
				"PROTOCOL is tcp, https or h2",
			Label: "Ports", Hint: "in the sandbox, such as 80 5432",
			ref: func(s *Spec) any { return &s.Ports },
		},
		{
			Name: "inbound", Flag: "inbound", Doc: "`CIDRS` that may connect to published ports; empty is all", Need: CapInbound,
			ref: func(s *Spec) any { return &s.Inbound }, check: Spec.checkInbound,
		},
		{
			Name: "network", Flag: "network", Label: "Network", Hint: "allowed connections",
			Doc: "network `MODE`: none, all, allow or internal (only sandboxes of its app with the same mode)",
			ref: func(s *Spec) any { return &s.Network },
		},
		{
			Name: "dns", Flag: "dns", Doc: "`ADDRESSES` of name servers (default: the provider's)", Need: CapDNS,
			ref: func(s *Spec) any { return &s.DNS }, check: Spec.checkDNS,
		},
		{
			Name: "labels", Flag: "label", Letter: "l", Doc: "label `KEY=VALUE`",
			ref: func(s *Spec) any { return &s.Labels }, check: Spec.checkLabels,
		},
		{
			Name: "command", Doc: "entry command; the sandbox ends when it ends", Label: "Command",
			Hint:  "shell command, or empty for none",
			ref:   func(s *Spec) any { return &s.Command },
			check: func(s Spec) error { return validateArgv("command", s.Command) },
		},
		{
			Name: "require", Flag: "require",
			Doc: "refuse providers that do not fully enforce each limit and policy, defaults included; " +
				"see sb policy explain",
			ref: func(s *Spec) any { return &s.Require },
		},
		{
			Name: "ready", Flag: "ready-tcp", Doc: "readiness check: a command or a port",
			ref: func(s *Spec) any { return &s.Ready }, check: func(s Spec) error { return s.Ready.validate() },
		},
		{
			Name: "modal", Flag: "modal", Doc: "a setting of Modal as `KEY=VALUE`, such as regions=us-east or cpu_limit=4",
			Need: CapModal,
			ref:  func(s *Spec) any { return &s.Modal }, check: Spec.checkModal,
		},
	}
}

// The hints of fields that take the same kind of value.
const (
	sizeHint    = "such as 512MiB or 2G"
	timeoutHint = "such as 15m or 2h; 0: no limit"
)
