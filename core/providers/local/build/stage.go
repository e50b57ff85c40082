package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// state is a stage that is being built, or is finished.
type state struct {
	job   *job
	stage *stage
	// base is the base image. Its ID is "" for scratch.
	base   image.Image
	layers []entry
	// key is the key of the last step.
	key    string
	config image.Config
	// args are the values of the declared arguments.
	args map[string]string
	// ownCmd means that this stage has a CMD.
	ownCmd bool

	// tree has the files after the last step. It is nil until a step or the image needs it. Its content is in file.
	tree *layer.Tree
	file *os.File
}

// build builds one stage.
func (j *job) build(ctx context.Context, s *stage) error {
	state := &state{job: j, stage: s, args: map[string]string{}}
	j.step++
	j.report(core.Progress{Step: j.title("FROM "+s.BaseName, "")})
	switch {
	case s.parent != nil:
		parent := j.done[s.parent]
		state.base, state.key, state.layers = parent.base, parent.key, slices.Clone(parent.layers)
		state.config = clone(parent.config)
	case s.base != "":
		base, err := j.Pull(ctx, s.base)
		if err != nil {
			return about(err, j.at(line(s.Location)), "FROM")
		}
		state.base, state.key, state.config = base, base.ID, clone(base.Config)
	default:
		state.key = scratch
	}
	j.done[s] = state
	for _, command := range s.Commands {
		if err := state.run(ctx, command); err != nil {
			at := j.at(line(command.Location()))
			if _, ok := j.Titles[line(command.Location())]; ok {
				at = ""
			}
			return about(err, at, j.titleOf(command))
		}
	}
	return nil
}

// about adds the line, if any, to an error. It keeps the kind, and names the instruction if the error has no kind.
func about(err error, at, instruction string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := core.KindOf(err)
	if _, known := errors.AsType[*core.Error](err); !known && kind == core.KindInternal {
		kind = core.KindUsage
		if _, host := errors.AsType[*os.PathError](err); host {
			kind = core.KindInternal
		}
	}
	e := core.Errorf(kind, "local.build", at, "%s: %w", instruction, err)
	if hint := core.HintOf(err); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

func clone(c image.Config) image.Config {
	c.Env, c.ExposedPorts, c.Volumes = slices.Clone(c.Env), slices.Clone(c.ExposedPorts), slices.Clone(c.Volumes)
	c.Labels = maps.Clone(c.Labels)
	return c
}

// title returns a step's number and text.
func (j *job) title(text, note string) string {
	name := fmt.Sprintf("[%d/%d] %s", j.step, j.plan.steps, text)
	if note != "" {
		name += " (" + note + ")"
	}
	return name
}

// maxTitle bounds the text of an instruction in bytes.
const maxTitle = 200

// titleOf returns the text of an instruction in one line.
func (j *job) titleOf(c instructions.Command) string {
	text := strings.ToUpper(c.Name())
	if s, ok := c.(fmt.Stringer); ok {
		text = s.String()
	}
	if title, ok := j.Titles[line(c.Location())]; ok {
		text = title
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxTitle {
		text = strings.ToValidUTF8(text[:maxTitle], "") + "…"
	}
	return text
}

// close closes the stage's file.
func (s *state) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// expand replaces the variables of a word.
func (s *state) expand(word string) (string, error) {
	text, _, err := shell.NewLex(s.job.plan.escape).ProcessWord(word, shell.EnvsFromSlice(s.variables()))
	return text, err
}

// variables returns the declared arguments and the environment, which overrides them.
func (s *state) variables() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.args)) {
		if _, found := lookup(s.config.Env, name); !found {
			all = append(all, name+"="+s.args[name])
		}
	}
	return append(all, s.config.Env...)
}

func lookup(env []string, name string) (value string, found bool) {
	for _, variable := range env {
		if rest, ok := strings.CutPrefix(variable, name+"="); ok {
			value, found = rest, true
		}
	}
	return value, found
}

// run runs one instruction.
func (s *state) run(ctx context.Context, command instructions.Command) error {
	if c, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if _, isArg := command.(*instructions.ArgCommand); !isArg {
			if err := c.Expand(s.expand); err != nil {
				return err
			}
		}
	}
	switch c := command.(type) {
	case *instructions.RunCommand:
		return s.runCommand(ctx, c)
	case *instructions.CopyCommand:
		return s.copy(ctx, c, c.SourcesAndDest, c.From, c.Chown, c.Chmod, false)
	case *instructions.AddCommand:
		return s.copy(ctx, c, c.SourcesAndDest, "", c.Chown, c.Chmod, true)
	case *instructions.WorkdirCommand:
		return s.workdir(ctx, c)
	case *instructions.ArgCommand:
		return s.declare(c)
	}
	return s.configure(command)
}

// configure runs an instruction that changes the configuration only.
func (s *state) configure(command instructions.Command) error {
	config := &s.config
	switch c := command.(type) {
	case *instructions.EnvCommand:
		for _, v := range c.Env {
			if !core.EnvName(v.Key) {
				return fmt.Errorf("%q is not an environment variable", v.Key)
			}
			config.Env = slices.DeleteFunc(config.Env, func(has string) bool { return strings.HasPrefix(has, v.Key+"=") })
			config.Env = append(config.Env, v.Key+"="+v.Value)
		}
	case *instructions.LabelCommand:
		if config.Labels == nil {
			config.Labels = map[string]string{}
		}
		for _, v := range c.Labels {
			config.Labels[v.Key] = v.Value
		}
	case *instructions.UserCommand:
		config.User = c.User
	case *instructions.CmdCommand:
		config.Cmd, s.ownCmd = s.argv(c.ShellDependantCmdLine), true
	case *instructions.EntrypointCommand:
		config.Entrypoint = s.argv(c.ShellDependantCmdLine)
		if !s.ownCmd {
			config.Cmd = nil // it belonged to the entrypoint of the base
		}
	case *instructions.ExposeCommand:
		return s.expose(c.Ports)
	case *instructions.ShellCommand:
		config.Shell = c.Shell
	case *instructions.VolumeCommand:
		config.Volumes = slices.Compact(slices.Sorted(slices.Values(append(config.Volumes, c.Volumes...))))
	case *instructions.HealthCheckCommand:
		config.Healthcheck = &v1.HealthConfig{
			Test: c.Health.Test, Interval: c.Health.Interval, Timeout: c.Health.Timeout,
			StartPeriod: c.Health.StartPeriod, Retries: c.Health.Retries,
		}
	case *instructions.StopSignalCommand:
		config.StopSignal = c.Signal
	}
	return nil
}

// expose adds ports such as "80", "53/udp" and "8000-8010".
func (s *state) expose(ports []string) error {
	for _, port := range ports {
		text, err := s.expand(port)
		if err != nil {
			return err
		}
		for one := range strings.FieldsSeq(text) {
			number, protocol, ok := strings.Cut(one, "/")
			if !ok {
				protocol = "tcp"
			}
			from, to, isRange := strings.Cut(number, "-")
			if !isRange {
				to = from
			}
			first, err := portOf(from)
			if err != nil {
				return err
			}
			last, err := portOf(to)
			if err != nil {
				return err
			}
			for n := first; n <= last; n++ {
				s.config.ExposedPorts = append(s.config.ExposedPorts, fmt.Sprintf("%d/%s", n, strings.ToLower(protocol)))
			}
		}
	}
	s.config.ExposedPorts = slices.Compact(slices.Sorted(slices.Values(s.config.ExposedPorts)))
	return nil
}

func portOf(text string) (int, error) {
	var n int
	if _, err := fmt.Sscanf(text+"\n", "%d\n", &n); err != nil || n < 1 || n > math.MaxUint16 {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return n, nil
}

// argv returns a command with the shell of the stage, if it needs one.
func (s *state) argv(c instructions.ShellDependantCmdLine) []string {
	if !c.PrependShell {
		return c.CmdLine
	}
	return append(s.shell(), c.CmdLine...)
}

func (s *state) shell() []string {
	if len(s.config.Shell) > 0 {
		return slices.Clone(s.config.Shell)
	}
	return []string{"/bin/sh", "-c"}
}

// declare runs ARG.
func (s *state) declare(c *instructions.ArgCommand) error {
	for _, arg := range c.Args {
		name, err := s.expand(arg.Key)
		if err != nil {
			return err
		}
		value, given := s.job.Args[name]
		if !given && arg.Value != nil {
			if value, err = s.expand(*arg.Value); err != nil {
				return err
			}
			given = true
		}
		if !given {
			value, given = s.job.plan.args[name]
		}
		if given {
			s.args[name] = value
		}
	}
	return nil
}

// proxyArgs are arguments that commands get without a declaration. They do not belong to the key of a step.
func proxyArgs() []string {
	return []string{
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY", "ftp_proxy", "NO_PROXY", "no_proxy",
		"ALL_PROXY", "all_proxy",
	}
}

// unusedArgs reports given arguments that no stage declares.
func (j *job) unusedArgs() {
	for _, name := range slices.Sorted(maps.Keys(j.Args)) {
		used := slices.Contains(proxyArgs(), name)
		if _, declared := j.plan.args[name]; declared {
			used = true
		}
		for _, s := range j.done {
			if _, declared := s.args[name]; declared {
				used = true
			}
		}
		if !used {
			j.report(core.Progress{
				Step: fmt.Sprintf("no ARG declares %s, so its value was not used", name), Log: true,
			})
		}
	}
}

// workdir runs WORKDIR. A missing directory belongs to the user of the stage.
func (s *state) workdir(ctx context.Context, c *instructions.WorkdirCommand) error {
	dir := path.Join("/", c.Path)
	if !path.IsAbs(c.Path) {
		dir = path.Join("/", s.config.WorkingDir, c.Path)
	}
	s.config.WorkingDir = dir
	return s.layer(ctx, layerStep{
		line: line(c.Location()), title: s.job.titleOf(c),
		content: func() (string, error) {
			return keyOf(s.key, map[string]string{"workdir": dir, "user": s.config.User})
		},
		make: func(ctx context.Context, to io.Writer) error { return s.writeDir(ctx, dir, to) },
	})
}

// layerStep is a step that makes a layer.
type layerStep struct {
	line  int
	title string
	// alias is a key that needs less work than content, or "". The layer is stored under both.
	alias string
	// content returns the key of the step.
	content func() (string, error)
	// make writes the layer.
	make func(ctx context.Context, to io.Writer) error
}

// layer adds the layer of a step, from the cache if possible. Only one build at a time makes a layer.
func (s *state) layer(ctx context.Context, step layerStep) error {
	j := s.job
	j.step++
	if step.alias != "" && !j.NoCache {
		if e, ok := j.cache.get(step.alias); ok && e.Alias != "" {
			if found, ok := j.cache.get(e.Alias); ok && found.DiffID != "" {
				j.report(core.Progress{Step: j.title(step.title, "cached")})
				return s.add(ctx, e.Alias, found)
			}
		}
	}
	key, err := step.content()
	if err != nil {
		return err
	}
	unlock, err := j.cache.locked(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	found, ok := j.cache.get(key)
	if ok = ok && found.DiffID != "" && !j.NoCache; ok {
		j.report(core.Progress{Step: j.title(step.title, "cached")})
	} else {
		j.report(core.Progress{Step: j.title(step.title, ""), Rare: true})
		diffID, err := j.cache.write(func(to io.Writer) error { return step.make(ctx, to) })
		if err != nil {
			return err
		}
		found = entry{DiffID: diffID, Step: step.title}
		if err := j.cache.put(key, found); err != nil {
			return err
		}
	}
	if step.alias != "" {
		if err := j.cache.put(step.alias, entry{Alias: key}); err != nil {
			return err
		}
	}
	return s.add(ctx, key, found)
}

// add adds a stored layer.
func (s *state) add(ctx context.Context, key string, e entry) error {
	s.key, s.layers = key, append(s.layers, e)
	if s.tree == nil {
		return nil
	}
	return s.apply(ctx, e)
}

// apply applies a stored layer to the tree.
func (s *state) apply(ctx context.Context, e entry) error {
	l, err := s.job.cache.read(e.DiffID)
	if err != nil {
		return err
	}
	defer l.close()
	err = s.tree.Apply(ctx, l)
	if err == nil {
		err = l.verify()
	}
	if errors.Is(err, errLayer) {
		return core.Errorf(core.KindInternal, "local.build", s.job.cache.layer(e.DiffID), "%w", err).
			WithHint("build again with --no-cache")
	}
	return err
}

// limits are those of images, without the ratio: the layers of a build are not foreign.
func limits() layer.Limits {
	l := layer.DefaultLimits()
	l.Ratio = math.MaxInt64
	return l
}

// open makes the tree with all layers until now.
func (s *state) open(ctx context.Context) (err error) {
	if s.tree != nil {
		return nil
	}
	file, err := os.CreateTemp(s.job.cache.work, "root-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.tree, s.file = nil, nil
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	s.file = file
	meter := layer.NewMeter(limits())
	if s.base.ID == "" {
		s.tree = layer.New(file, limits(), meter)
	} else {
		if err := copyFile(file, s.base.Path); err != nil {
			return err
		}
		if s.tree, err = layer.Reopen(file, limits(), meter); err != nil {
			return core.Errorf(core.KindInternal, "local.build", s.stage.BaseName, "the base image cannot be read: %w", err).
				WithHint("remove it and pull it again: sb image rm %s", s.base.ID)
		}
	}
	for _, e := range s.layers {
		if err := s.apply(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, as a reflink where the file system has those.
func copyFile(to *os.File, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, f.Close())
}
