package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
)

// SpecFlags are the flags that describe a sandbox. core.Fields declares them, except groups of flags that set one
// field.
type SpecFlags struct {
	EnvFlags

	file string
	// single are the fields with a separate flag that pflag parses into given.
	single []core.Field
	given  core.Spec
	// lines has the unparsed values of repeatable flags by field.
	lines map[string]*[]string

	allow         []string
	readyTCP      int
	readyExec     string
	readyInterval DurationValue
}

// Register adds the flags that describe a sandbox.
func (f *SpecFlags) Register(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "file", "f", "",
		"read options from YAML `FILE`, named as in \"sb inspect\" under spec (- is stdin); flags override it")
	f.lines = map[string]*[]string{"volumes": {}, "tmpfs": {}, "ports": {}, "labels": {}, "modal": {}}
	for _, field := range core.Fields() {
		switch field.Name {
		case "command": // the arguments
		case "env":
			f.EnvFlags.Register(flags)
		case "secrets": // EnvFlags has them
		case "network":
			flags.StringVar((*string)(&f.given.Network.Mode), field.Flag, "", field.Doc)
			flags.StringSliceVar(&f.allow, "allow", nil,
				"allow connections to `HOSTS` (domains and CIDRs) only; implies --network allow (repeatable)")
		case "ready":
			flags.IntVar(&f.readyTCP, "ready-tcp", 0, "ready when `PORT` in the sandbox accepts connections")
			flags.StringVar(&f.readyExec, "ready-exec", "", "ready when the shell command `COMMAND` exits with code 0")
			flags.Var(&f.readyInterval, "ready-interval", "time between two readiness checks (default 1s)")
		default:
			f.register(flags, field)
		}
	}

	Complete(cmd, "provider", app.completePlaces)
	Complete(cmd, "app", app.CompleteApps)
	Complete(cmd, "template", app.CompleteTemplates)
	Complete(cmd, "gpu", app.CompleteGPUs)
	Complete(cmd, "image", app.CompleteImages)
	Complete(cmd, "pull", Fixed(core.FieldNamed("pull").Choices...))
	Complete(cmd, "checkpoint", app.CompleteStored(CheckpointNames))
	Complete(cmd, "snapshot", app.CompleteStored(SnapshotIDs))
	Complete(
		cmd, "network",
		Fixed(string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow), string(core.NetworkInternal)),
	)
	Complete(cmd, "file", extensions("yaml", "yml", "json"))
	Complete(cmd, "modal", completeModal)
}

// register adds the flag of one field.
func (f *SpecFlags) register(flags *pflag.FlagSet, field core.Field) {
	if lines, ok := f.lines[field.Name]; ok {
		flags.StringArrayVarP(lines, field.Flag, field.Letter, nil, field.Doc+" (repeatable)")
		return
	}
	f.single = append(f.single, field)
	switch value := field.Ref(&f.given).(type) {
	case *string:
		flags.StringVarP(value, field.Flag, field.Letter, "", field.Doc)
	case *core.PullPolicy:
		flags.StringVarP((*string)(value), field.Flag, field.Letter, "", field.Doc)
	case *bool:
		flags.BoolVarP(value, field.Flag, field.Letter, false, field.Doc)
	case *int:
		flags.IntVarP(value, field.Flag, field.Letter, 0, field.Doc)
	case *float64:
		flags.Float64VarP(value, field.Flag, field.Letter, 0, field.Doc)
	case *core.Bytes:
		flags.VarP((*BytesValue)(value), field.Flag, field.Letter, field.Doc)
	case *core.Duration:
		flags.VarP((*timeoutValue)(value), field.Flag, field.Letter, field.Doc)
	case *core.GPU:
		flags.VarP(GPUValue{value}, field.Flag, field.Letter, field.Doc)
	case *[]string:
		flags.StringSliceVarP(value, field.Flag, field.Letter, nil, field.Doc+" (repeatable, or comma separated)")
	}
}

// Spec makes the launch spec: the file's fields, overridden by the flags that were given.
func (f *SpecFlags) Spec(
	flags *pflag.FlagSet, streams *iostreams.Streams, lookup func(string) (string, bool),
) (core.Spec, error) {
	var spec core.Spec
	if f.file != "" {
		var err error
		if spec, err = readSpec(f.file, streams.In); err != nil {
			return core.Spec{}, err
		}
	}
	for _, field := range f.single {
		if flags.Changed(field.Flag) {
			field.Copy(&spec, f.given)
		}
	}
	f.setSource(flags, &spec)
	f.setNetwork(flags, &spec)
	if err := f.addReady(flags, &spec); err != nil {
		return core.Spec{}, err
	}
	if err := configs.SetModal(&spec, *f.lines["modal"]); err != nil {
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

// sourceFields returns the names of the sources that a sandbox can start from.
func sourceFields() []string {
	return []string{"image", "dockerfile", "template", "snapshot", "checkpoint"}
}

// setSource sets the source of the sandbox. There is one source only, so a flag replaces any source of the file.
func (f *SpecFlags) setSource(flags *pflag.FlagSet, spec *core.Spec) {
	if !slices.ContainsFunc(sourceFields(), flags.Changed) {
		return
	}
	for _, name := range sourceFields() {
		core.FieldNamed(name).Copy(spec, f.given)
	}
}

func (f *SpecFlags) setNetwork(flags *pflag.FlagSet, spec *core.Spec) {
	if flags.Changed("allow") {
		spec.Network = core.Network{Mode: core.NetworkAllow, Allow: f.allow}
	}
	if flags.Changed("network") {
		spec.Network.Mode = f.given.Network.Mode
		if !flags.Changed("allow") && spec.Network.Mode != core.NetworkAllow {
			spec.Network.Allow = nil
		}
	}
}

// addEnvironment adds the variables and secrets of the flags to the file's.
func (f *SpecFlags) addEnvironment(
	spec *core.Spec, streams *iostreams.Streams, lookup func(string) (string, bool),
) error {
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
		return core.Errorf(
			core.KindUsage, "parse", "", "--ready-tcp and --ready-exec exclude each other",
		)
	}
	switch {
	case tcp:
		spec.Ready = &core.Probe{TCP: f.readyTCP}
	case exec:
		spec.Ready = &core.Probe{Exec: []string{"sh", "-c", f.readyExec}}
	}
	if flags.Changed("ready-interval") {
		if spec.Ready == nil {
			return core.Errorf(core.KindUsage, "parse", "", "--ready-interval needs a readiness check").
				WithHint("add --ready-tcp PORT or --ready-exec COMMAND")
		}
		spec.Ready.Interval = core.Duration(f.readyInterval)
	}
	return nil
}

func (f *SpecFlags) addLists(flags *pflag.FlagSet, spec *core.Spec) error {
	if flags.Changed("volume") {
		spec.Volumes = nil
		for _, text := range *f.lines["volumes"] {
			volume, err := parseVolume(text)
			if err != nil {
				return err
			}
			spec.Volumes = append(spec.Volumes, volume)
		}
	}
	if flags.Changed("tmpfs") {
		spec.Tmpfs = nil
		for _, text := range *f.lines["tmpfs"] {
			tmpfs, err := parseTmpfs(text)
			if err != nil {
				return err
			}
			spec.Tmpfs = append(spec.Tmpfs, tmpfs)
		}
	}
	if flags.Changed("port") {
		spec.Ports = nil
		for _, text := range *f.lines["ports"] {
			port, err := ParsePort(text)
			if err != nil {
				return err
			}
			spec.Ports = append(spec.Ports, port)
		}
	}
	labels, err := ParseLabels(*f.lines["labels"])
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
