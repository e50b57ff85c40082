package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
)

// SpecFlags are the flags that describe a sandbox: one for each field of core.Spec.
type SpecFlags struct {
	File string
	EnvFlags

	Provider, App, Name                 string
	Image, Dockerfile, Template, Source string
	Checkpoint                          string
	Python                              string
	Pip, Apt                            []string
	CPU                                 float64
	Memory, Disk                        BytesValue
	Processes, OpenFiles                int
	GPU                                 GPUValue
	Timeout, IdleTimeout                timeoutValue
	Persist                             bool
	MaxCost                             float64
	Workdir, User                       string
	Volumes, Ports                      []string
	Network                             string
	Allow                               []string
	Labels                              []string
	Inbound                             []string
	Require                             bool
	ReadyTCP                            int
	ReadyExec                           string
	ReadyInterval                       DurationValue
	Modal                               []string
}

// Register adds the flags that describe a sandbox.
func (f *SpecFlags) Register(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.File, "file", "f", "", "read the spec from YAML `FILE` (- is stdin); flags override it")
	flags.StringVar(&f.Provider, "provider", "", "where it runs: `NAME` or auto (default auto)")
	flags.StringVar(&f.App, "app", "", "app `NAME` that groups sandboxes")
	flags.StringVarP(&f.Name, "name", "n", "", "`NAME`, unique among the provider's live sandboxes (default: one is made)")
	flags.StringVar(&f.Image, "image", "", "image `NAME` (default: the provider's; host is this machine's programs)")
	flags.StringVar(&f.Dockerfile, "dockerfile", "", "build the image from `FILE`")
	flags.StringVar(&f.Template, "template", "", "template `NAME` to start from")
	flags.StringVar(&f.Source, "snapshot", "", "snapshot `ID` to start from")
	flags.StringVar(&f.Checkpoint, "checkpoint", "", "checkpoint `NAME` to go on from, memory included; what it had holds where no flag says otherwise")
	flags.StringVar(&f.Python, "python", "", "Python `VERSION` to have, such as 3.12")
	flags.StringSliceVar(&f.Pip, "pip", nil, "Python `PACKAGES` to install (repeatable, or comma separated)")
	flags.StringSliceVar(&f.Apt, "apt", nil, "Debian `PACKAGES` to install (repeatable, or comma separated)")
	flags.Float64Var(&f.CPU, "cpu", 0, "`CORES` of CPU")
	flags.VarP(&f.Memory, "memory", "m", "memory limit, such as 512MiB or 2G")
	flags.Var(&f.Disk, "disk", "limit of what it may write, such as 10G")
	flags.IntVar(&f.Processes, "processes", 0, "limit of processes at the same time")
	flags.IntVar(&f.OpenFiles, "open-files", 0, "limit of open files per process")
	flags.Var(&f.GPU, "gpu", "GPUs, as `TYPE[:COUNT]`, such as H100 or A100-80GB:4")
	flags.Var(&f.Timeout, "timeout", "lifetime: the sandbox ends that long after its launch or latest start, such as 90s or 2h; 0 is none")
	flags.Var(&f.IdleTimeout, "idle-timeout", "end it when no command ran in it for that long; 0 is never")
	flags.Float64Var(&f.MaxCost, "max-cost", 0, "end it before it has cost more than `AMOUNT`, in the currency of the provider's prices; refuse what cannot fit")
	flags.BoolVar(&f.Persist, "persist", false, "keep the filesystem over stop and start")
	flags.StringVarP(&f.Workdir, "workdir", "w", "", "working `DIR` of commands")
	flags.StringVarP(&f.User, "user", "u", "", "run as `USER[:GROUP]`, names or numbers inside")
	f.EnvFlags.Register(flags)
	flags.StringArrayVarP(&f.Volumes, "volume", "v", nil, "mount `SOURCE:TARGET[:ro]` (repeatable)")
	flags.StringArrayVarP(&f.Ports, "port", "p", nil, "publish `[HOST:]PORT[/PROTOCOL]`: on this machine's loopback, in a cloud at an address of its own; PROTOCOL is tcp, https or h2 (repeatable)")
	flags.StringSliceVar(&f.Inbound, "inbound", nil, "`CIDRS` that may connect to published ports (repeatable; default: all)")
	flags.StringVar(&f.Network, "network", "", "network `MODE`: none, all, allow or internal (only the sandboxes of its app that have it, too)")
	flags.StringSliceVar(&f.Allow, "allow", nil, "`HOSTS` it may reach, domains and CIDRs; means --network allow (repeatable)")
	flags.StringArrayVarP(&f.Labels, "label", "l", nil, "label `KEY=VALUE` (repeatable)")
	flags.BoolVar(&f.Require, "require", false, "refuse providers that do not fully hold each limit and policy that is named here or in the spec file; see sb policy explain")
	flags.IntVar(&f.ReadyTCP, "ready-tcp", 0, "it is ready once `PORT` inside accepts connections")
	flags.StringVar(&f.ReadyExec, "ready-exec", "", "it is ready once `COMMAND`, a line for its sh, ends with code 0")
	flags.Var(&f.ReadyInterval, "ready-interval", "time between two attempts to see whether it is ready (default 1s)")
	flags.StringArrayVar(&f.Modal, "modal", nil, "what only Modal has, as `KEY=VALUE`, such as regions=us-east or cpu_limit=4 (repeatable)")

	Complete(cmd, "provider", app.completePlaces)
	Complete(cmd, "app", app.CompleteApps)
	Complete(cmd, "template", app.CompleteTemplates)
	Complete(cmd, "gpu", app.CompleteGPUs)
	Complete(cmd, "image", app.CompleteImages)
	Complete(cmd, "checkpoint", app.completeStored(CheckpointNames))
	Complete(cmd, "snapshot", app.completeStored(SnapshotIDs))
	Complete(cmd, "network", Fixed(string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow), string(core.NetworkInternal)))
	Complete(cmd, "file", extensions("yaml", "yml", "json"))
	Complete(cmd, "modal", completeModal)
}

// Spec makes the launch spec: the file's fields, overridden by the flags that were given.
func (f *SpecFlags) Spec(flags *pflag.FlagSet, streams *iostreams.Streams, lookup func(string) (string, bool)) (core.Spec, error) {
	var spec core.Spec
	if f.File != "" {
		var err error
		if spec, err = readSpec(f.File, streams.In); err != nil {
			return core.Spec{}, err
		}
	}
	set := func(name string, apply func()) {
		if flags.Changed(name) {
			apply()
		}
	}
	set("provider", func() { spec.Provider = f.Provider })
	set("app", func() { spec.App = f.App })
	set("name", func() { spec.Name = f.Name })
	f.setSource(flags, &spec)
	set("python", func() { spec.Python = f.Python })
	set("pip", func() { spec.Pip = f.Pip })
	set("apt", func() { spec.Apt = f.Apt })
	set("cpu", func() { spec.CPU = f.CPU })
	set("memory", func() { spec.Memory = core.Bytes(f.Memory) })
	set("disk", func() { spec.Disk = core.Bytes(f.Disk) })
	set("processes", func() { spec.Processes = f.Processes })
	set("open-files", func() { spec.OpenFiles = f.OpenFiles })
	set("gpu", func() { spec.GPU = f.GPU.GPU })
	set("timeout", func() { spec.Timeout = core.Duration(f.Timeout) })
	set("idle-timeout", func() { spec.IdleTimeout = core.Duration(f.IdleTimeout) })
	set("max-cost", func() { spec.MaxCost = f.MaxCost })
	set("persist", func() { spec.Persist = f.Persist })
	set("workdir", func() { spec.Workdir = f.Workdir })
	set("user", func() { spec.User = f.User })
	set("allow", func() { spec.Network = core.Network{Mode: core.NetworkAllow, Allow: f.Allow} })
	set("network", func() {
		spec.Network.Mode = core.NetworkMode(f.Network)
		if !flags.Changed("allow") && spec.Network.Mode != core.NetworkAllow {
			spec.Network.Allow = nil
		}
	})
	set("require", func() { spec.Require = f.Require })
	set("inbound", func() { spec.Inbound = f.Inbound })
	if err := f.addReady(flags, &spec); err != nil {
		return core.Spec{}, err
	}
	if err := configs.SetModal(&spec, f.Modal); err != nil {
		return core.Spec{}, err
	}
	if err := f.addLists(flags, &spec); err != nil {
		return core.Spec{}, err
	}
	if err := f.addEnvironment(&spec, streams, lookup); err != nil {
		return core.Spec{}, err
	}
	return spec, nil
}

// setSource sets what the sandbox is made from. That is one choice: a flag replaces the file's, whichever field that was.
func (f *SpecFlags) setSource(flags *pflag.FlagSet, spec *core.Spec) {
	if slices.ContainsFunc([]string{"image", "dockerfile", "template", "snapshot", "checkpoint"}, flags.Changed) {
		spec.Image, spec.Dockerfile, spec.Template, spec.Snapshot, spec.Checkpoint = f.Image, f.Dockerfile, f.Template, f.Source, f.Checkpoint
	}
}

// addEnvironment adds the variables and secrets of the flags to the file's.
func (f *SpecFlags) addEnvironment(spec *core.Spec, streams *iostreams.Streams, lookup func(string) (string, bool)) error {
	env, err := f.Environment(lookup)
	if err != nil {
		return err
	}
	if len(env) > 0 {
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		maps.Copy(spec.Env, env)
	}
	secrets, err := f.ReadSecrets(lookup, streams)
	if err != nil {
		return err
	}
	spec.Secrets, err = mergeSecrets(spec.Secrets, secrets, lookup)
	return err
}

// addReady makes the readiness probe of the flags; it replaces the file's.
func (f *SpecFlags) addReady(flags *pflag.FlagSet, spec *core.Spec) error {
	tcp, exec := flags.Changed("ready-tcp"), flags.Changed("ready-exec")
	if tcp && exec {
		return core.Errorf(core.KindUsage, "parse", "", "--ready-tcp and --ready-exec: only one of them can say when the sandbox is ready")
	}
	switch {
	case tcp:
		spec.Ready = &core.Probe{TCP: f.ReadyTCP}
	case exec:
		spec.Ready = &core.Probe{Exec: []string{"sh", "-c", f.ReadyExec}}
	}
	if flags.Changed("ready-interval") {
		if spec.Ready == nil {
			return core.Errorf(core.KindUsage, "parse", "", "--ready-interval says how often, but not what is looked at").
				WithHint("add --ready-tcp PORT or --ready-exec COMMAND")
		}
		spec.Ready.Interval = core.Duration(f.ReadyInterval)
	}
	return nil
}

func (f *SpecFlags) addLists(flags *pflag.FlagSet, spec *core.Spec) error {
	if flags.Changed("volume") {
		spec.Volumes = nil
		for _, text := range f.Volumes {
			volume, err := parseVolume(text)
			if err != nil {
				return err
			}
			spec.Volumes = append(spec.Volumes, volume)
		}
	}
	if flags.Changed("port") {
		spec.Ports = nil
		for _, text := range f.Ports {
			port, err := ParsePort(text)
			if err != nil {
				return err
			}
			spec.Ports = append(spec.Ports, port)
		}
	}
	labels, err := parseLabels(f.Labels)
	if err != nil {
		return err
	}
	if len(labels) > 0 {
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		maps.Copy(spec.Labels, labels)
	}
	return nil
}

// mergeSecrets adds given to those of a spec file. A secret of the file has no
// value; without a reference it comes from the caller's environment.
func mergeSecrets(file, given []core.Secret, lookup func(string) (string, bool)) ([]core.Secret, error) {
	names := map[string]bool{}
	for _, s := range given {
		names[s.Name] = true
	}
	var merged []core.Secret
	for _, s := range file {
		if names[s.Name] {
			continue
		}
		if err := CheckKey("secrets", s.Name); err != nil {
			return nil, err
		}
		if s.Ref == "" {
			value, ok := lookup(s.Name)
			if !ok {
				return nil, missingSecret(s.Name)
			}
			s.Value = core.NewSecretValue(value)
		}
		merged = append(merged, s)
	}
	return append(merged, given...), nil
}

// readSpec reads a spec file; "-" is stdin.
func readSpec(path string, stdin io.Reader) (core.Spec, error) {
	if path == "-" {
		return configs.ReadSpec("--file "+path, stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return core.Spec{}, FileError("--file", path, err)
	}
	defer func() { _ = file.Close() }()
	return configs.ReadSpec("--file "+path, file)
}

// parseLabels reads KEY=VALUE pairs.
func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, core.Errorf(core.KindUsage, "parse", pair, "--label %s: not a label", pair).WithHint("write --label KEY=VALUE")
		}
		labels[key] = value
	}
	return labels, nil
}

func parseVolume(text string) (core.Volume, error) {
	parts := strings.Split(text, ":")
	bad := func() (core.Volume, error) {
		return core.Volume{}, core.Errorf(core.KindUsage, "parse", text, "--volume %s: not a volume", text).
			WithHint("write --volume NAME:/PATH or --volume /HOST/PATH:/PATH, with :ro at the end for read-only")
	}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return bad()
	}
	volume := core.Volume{Source: parts[0], Target: parts[1]}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			volume.ReadOnly = true
		case "rw":
		default:
			return bad()
		}
	}
	return volume, nil
}

// ParsePort reads [HOST:]PORT[/PROTOCOL].
func ParsePort(text string) (core.Port, error) {
	numbers, protocol, _ := strings.Cut(text, "/")
	host, inside, two := strings.Cut(numbers, ":")
	if !two {
		host, inside = "0", numbers
	}
	hostPort, hostErr := portNumber(host, 0)
	sandboxPort, err := portNumber(inside, 1)
	if err := errors.Join(hostErr, err); err != nil {
		return core.Port{}, core.Errorf(core.KindUsage, "parse", text, "--port %s: not a port", text).
			WithHint("write --port PORT or --port HOST_PORT:PORT, with /tcp, /https or /h2 behind it")
	}
	return core.Port{Host: hostPort, Sandbox: sandboxPort, Protocol: core.PortProtocol(protocol)}, nil
}

func portNumber(text string, least int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, err
	}
	if int(n) < least {
		return 0, fmt.Errorf("port %d", n)
	}
	return int(n), nil
}
