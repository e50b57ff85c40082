package build

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/seed-0724f904/sb/core"
)

// plan is a checked Dockerfile.
type plan struct {
	escape rune
	// args are the values of ARG instructions before the first FROM.
	args map[string]string
	// needed are the stages that the target needs, each after those that it needs. The target is last.
	needed []*stage
	// steps is the number of steps in needed.
	steps int
}

// stage is one FROM with the instructions after it.
type stage struct {
	instructions.Stage

	// base is the name of the base image. parent is the stage in its place; both are empty for "scratch".
	base   string
	parent *stage
	// from are the stages of COPY --from and of mounts, by their name in the Dockerfile.
	from map[string]*stage
}

// scratch is the name of the empty base image.
const scratch = "scratch"

// line returns the line of an instruction.
func line(of []parser.Range) int {
	if len(of) == 0 {
		return 0
	}
	return of[0].Start.Line
}

// newPlan parses and checks a Dockerfile. KindUsage: it has an error, or an instruction that is not supported.
func newPlan(o Options) (*plan, error) {
	refuse := func(line int, format string, args ...any) error {
		return core.Errorf(core.KindUsage, "local.build", at(o.File, line), format, args...)
	}
	parsed, err := parser.Parse(bytes.NewReader(o.Text))
	if err != nil {
		return nil, refuse(lineOf(err), "%w", err)
	}
	stages, meta, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{}))
	if err != nil {
		return nil, refuse(lineOf(err), "%s", withoutLine(err))
	}
	if len(stages) == 0 {
		return nil, refuse(1, "the Dockerfile has no FROM")
	}
	p := &plan{escape: parsed.EscapeToken, args: map[string]string{}}
	if err := p.metaArgs(meta, o.Args); err != nil {
		return nil, refuse(line(meta[0].Location()), "%w", err)
	}
	var all []*stage
	for i := range stages {
		s := &stage{Stage: stages[i], from: map[string]*stage{}}
		if err := p.base(s, all); err != nil {
			return nil, refuse(line(s.Location), "%w", err)
		}
		for _, command := range s.Commands {
			if err := p.check(s, all, command, o); err != nil {
				return nil, refuse(line(command.Location()), "%w", err)
			}
		}
		all = append(all, s)
	}
	target := all[len(all)-1]
	if o.Target != "" {
		if target = named(all, o.Target); target == nil {
			return nil, core.Errorf(core.KindUsage, "local.build", o.Target, "the Dockerfile has no such stage")
		}
	}
	p.need(target)
	return p, nil
}

// lineOf returns the line in a parser's error.
func lineOf(err error) int {
	var located *parser.LocationError
	if errors.As(err, &located) && len(located.Locations) > 0 {
		return line(located.Locations[0])
	}
	_, rest, ok := strings.Cut(err.Error(), parseErrorPrefix)
	number, _, _ := strings.Cut(rest, ":")
	if n, convErr := strconv.Atoi(number); ok && convErr == nil {
		return n
	}
	return 1
}

// parseErrorPrefix begins the errors of package instructions, which has no type for them.
const parseErrorPrefix = "dockerfile parse error on line "

// withoutLine returns the text of a parser's error without the line.
func withoutLine(err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, parseErrorPrefix); ok {
		if _, message, ok := strings.Cut(rest, ": "); ok {
			return message
		}
	}
	return text
}

// platformArgs are the predefined arguments.
func platformArgs() map[string]string {
	args := map[string]string{}
	for _, of := range []string{"TARGET", "BUILD"} {
		args[of+"PLATFORM"], args[of+"OS"], args[of+"ARCH"], args[of+"VARIANT"] = platform(), "linux", runtime.GOARCH, ""
	}
	return args
}

// platform returns this machine's platform. Sandboxes run Linux.
func platform() string { return "linux/" + runtime.GOARCH }

// metaArgs evaluates the ARG instructions before the first FROM.
func (p *plan) metaArgs(meta []instructions.ArgCommand, given map[string]string) error {
	maps.Copy(p.args, platformArgs())
	for _, command := range meta {
		for _, arg := range command.Args {
			value, ok := given[arg.Key]
			if !ok && arg.Value != nil {
				var err error
				if value, err = p.expand(*arg.Value, p.args); err != nil {
					return err
				}
				ok = true
			}
			if ok {
				p.args[arg.Key] = value
			}
		}
	}
	return nil
}

func (p *plan) expand(word string, with map[string]string) (string, error) {
	var env []string
	for name, value := range with {
		env = append(env, name+"="+value)
	}
	text, _, err := shell.NewLex(p.escape).ProcessWord(word, shell.EnvsFromSlice(env))
	return text, err
}

// named returns a stage by its name or its number, or nil. Names are case-insensitive, and the last one wins.
func named(stages []*stage, name string) *stage {
	for _, s := range slices.Backward(stages) {
		if s.Name != "" && strings.EqualFold(s.Name, name) {
			return s
		}
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(stages) {
		return stages[n]
	}
	return nil
}

// base finds the base of a stage.
func (p *plan) base(s *stage, before []*stage) error {
	name, err := p.expand(s.BaseName, p.args)
	if err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("the base image %q is empty: give a value with --build-arg", s.BaseName)
	}
	if s.Platform != "" {
		wanted, err := p.expand(s.Platform, p.args)
		if err != nil {
			return err
		}
		if wanted != platform() {
			return fmt.Errorf("FROM --platform=%s is not supported: this machine runs %s", wanted, platform())
		}
	}
	switch parent := named(before, name); {
	case parent != nil:
		s.parent = parent
	case name == core.HostImage:
		return fmt.Errorf("FROM %s: this machine's programs are no image to build from", name)
	case name != scratch:
		s.base = name
	}
	return nil
}

// need adds a stage to the needed ones, after those that it needs.
func (p *plan) need(s *stage) {
	if slices.Contains(p.needed, s) {
		return
	}
	if s.parent != nil {
		p.need(s.parent)
	}
	for _, name := range slices.Sorted(maps.Keys(s.from)) {
		p.need(s.from[name])
	}
	p.needed = append(p.needed, s)
	p.steps++
	for _, command := range s.Commands {
		if isStep(command) {
			p.steps++
		}
	}
}

// isStep reports whether an instruction makes a layer.
func isStep(command instructions.Command) bool {
	switch command.(type) {
	case *instructions.RunCommand, *instructions.CopyCommand, *instructions.AddCommand, *instructions.WorkdirCommand:
		return true
	}
	return false
}

// check refuses what is not supported.
func (p *plan) check(s *stage, before []*stage, command instructions.Command, o Options) error {
	switch c := command.(type) {
	case *instructions.RunCommand:
		return p.checkRun(s, before, c, o)
	case *instructions.CopyCommand:
		if c.Parents || len(c.ExcludePatterns) > 0 {
			return errors.New("COPY --parents and --exclude are not supported")
		}
		if c.From != "" {
			return p.source(s, before, c.From)
		}
		return checkSources("COPY", c.SourcePaths, o)
	case *instructions.AddCommand:
		if len(c.ExcludePatterns) > 0 || c.KeepGitDir != nil || c.Checksum != "" || c.Unpack != nil {
			return errors.New("ADD --exclude, --keep-git-dir, --checksum and --unpack are not supported")
		}
		for _, path := range c.SourcePaths {
			if remote(path) {
				return fmt.Errorf("ADD %s: addresses are not supported: download the file in a RUN step", path)
			}
		}
		return checkSources("ADD", c.SourcePaths, o)
	case *instructions.OnbuildCommand:
		return errors.New("ONBUILD is not supported: write its instruction into the Dockerfiles that need it")
	case *instructions.StopSignalCommand, *instructions.HealthCheckCommand, *instructions.VolumeCommand,
		*instructions.EnvCommand, *instructions.LabelCommand, *instructions.WorkdirCommand, *instructions.UserCommand,
		*instructions.CmdCommand, *instructions.EntrypointCommand, *instructions.ExposeCommand,
		*instructions.ArgCommand, *instructions.ShellCommand, *instructions.MaintainerCommand:
		return nil
	}
	return fmt.Errorf("%s is not supported", strings.ToUpper(command.Name()))
}

// remote reports whether a source of ADD is not a file.
func remote(source string) bool {
	for _, prefix := range []string{"http://", "https://", "git://", "git@", "ssh://"} {
		if strings.HasPrefix(strings.ToLower(source), prefix) {
			return true
		}
	}
	return false
}

// checkSources refuses sources outside of the context.
func checkSources(instruction string, paths []string, o Options) error {
	if o.Context == "" && len(paths) > 0 {
		return fmt.Errorf("%s: the build has no directory to copy from", instruction)
	}
	for _, path := range paths {
		if leadsOut(path) {
			return fmt.Errorf("%s %s: the path leads out of the build's directory", instruction, path)
		}
	}
	return nil
}

// leadsOut reports whether a path in the context leads out of it.
func leadsOut(name string) bool {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	return clean == ".." || strings.HasPrefix(clean, "../")
}

// source finds the stage of a --from. Another name is an image.
func (p *plan) source(s *stage, before []*stage, name string) error {
	if from := named(before, name); from != nil {
		s.from[name] = from
		return nil
	}
	if strings.EqualFold(name, s.Name) || name == core.HostImage || name == scratch || strings.ContainsAny(name, "$ ") {
		return fmt.Errorf("--from=%s names no earlier stage and no image", name)
	}
	if _, err := strconv.Atoi(name); err == nil {
		return fmt.Errorf("--from=%s names no earlier stage", name)
	}
	return nil
}

// checkRun refuses what is not supported of a RUN.
func (p *plan) checkRun(s *stage, before []*stage, c *instructions.RunCommand, o Options) error {
	switch network := instructions.GetNetwork(c); network {
	case instructions.NetworkDefault, instructions.NetworkNone:
	default:
		return fmt.Errorf("RUN --network=%s is not supported", network)
	}
	if security := instructions.GetSecurity(c); security != instructions.SecuritySandbox {
		return fmt.Errorf("RUN --security=%s is not supported", security)
	}
	if len(instructions.GetDevices(c)) > 0 {
		return errors.New("RUN --device is not supported")
	}
	return p.checkMounts(s, before, c, o)
}
