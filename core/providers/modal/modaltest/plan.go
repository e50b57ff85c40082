package modaltest

import (
	"maps"
	"path"
	"strings"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core/providers/modal/dockerfile"
)

// planner reads the Dockerfile of one image.
type planner struct {
	server *Server
	built  *image
	steps  []buildStep
	// outer has the variables above FROM, inner those of the image's ARG and ENV.
	outer, inner dockerfile.Variables
	// based reports whether FROM was read.
	based bool
}

// plan reads the lines of a Dockerfile. Some instructions only change the image; the others become steps to run. The
// caller holds mu.
func (s *Server) plan(definition *pb.Image) (*image, []buildStep, error) {
	instructions, err := dockerfile.Parse(strings.Join(definition.GetDockerfileCommands(), "\n"))
	if err != nil {
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	p := &planner{
		server: s, outer: dockerfile.Variables{}, inner: dockerfile.Variables{},
		built: &image{id: newID("im-"), definition: definition, done: make(chan struct{}), env: map[string]string{}},
	}
	for _, in := range instructions {
		if err := p.take(definition, in); err != nil {
			if _, classified := status.FromError(err); !classified {
				err = status.Errorf(codes.InvalidArgument, "%s: %v", in.Text, err)
			}
			return nil, nil, err
		}
	}
	return p.built, p.steps, nil
}

// take adds one instruction.
func (p *planner) take(definition *pb.Image, in dockerfile.Instruction) error {
	switch in.Verb {
	case "FROM":
		if p.based || len(in.Args) == 0 {
			return p.refuse(in)
		}
		name, err := p.outer.Expand(in.Args[0])
		if err != nil {
			return err
		}
		if err := p.server.from(p.built, definition, name); err != nil {
			return err
		}
		p.based = true
		maps.Copy(p.inner, p.built.env)
	case "ARG":
		if !p.based {
			return p.outer.Declare(in, nil)
		}
		return p.inner.Declare(in, p.outer)
	case "ENV":
		if err := p.inner.Declare(in, nil); err != nil {
			return err
		}
		for i := 0; i < len(in.Args); i += 3 {
			p.built.env[in.Args[i]] = p.inner[in.Args[i]]
		}
	case "WORKDIR":
		dir, err := p.inner.Expand(strings.Join(in.Args, " "))
		if err != nil {
			return err
		}
		dir = p.absolute(dir)
		p.step("mkdir -p " + shellQuote(dir))
		p.built.workdir = dir
	case "RUN":
		return p.run(in)
	case "ADD", "COPY":
		return p.copy(in)
	case "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "SHELL", "USER", "STOPSIGNAL", "MAINTAINER", "HEALTHCHECK", "ONBUILD",
		"VOLUME":
		// They configure the start of a container. A sandbox's definition does that instead.
	default:
		return status.Errorf(codes.InvalidArgument, "this server does not know the Dockerfile command %q", in.Verb)
	}
	return nil
}

// refuse returns the error for an instruction that Modal supports and this server does not.
func (p *planner) refuse(in dockerfile.Instruction) error {
	first, _, _ := strings.Cut(in.Text, "\n")
	return status.Errorf(codes.InvalidArgument, "this server does not support %q", first)
}

// absolute makes a path absolute; a relative one is below the image's working directory.
func (p *planner) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", p.built.workdir, name)
}

func (p *planner) step(command string) {
	p.steps = append(p.steps, buildStep{command: command, workdir: p.built.workdir, env: maps.Clone(p.inner)})
}

// run adds the step of a RUN. It has no mounts, except a cache, which is always empty.
func (p *planner) run(in dockerfile.Instruction) error {
	for _, flag := range in.Flags {
		if !strings.HasPrefix(flag, "--mount=type=cache") {
			return p.refuse(in)
		}
	}
	if len(in.Args) == 0 {
		return p.refuse(in)
	}
	command := in.Args[0]
	switch {
	case in.JSON:
		words := make([]string, len(in.Args))
		for i, word := range in.Args {
			words[i] = shellQuote(word)
		}
		command = strings.Join(words, " ")
	case len(in.Documents) == 1 && strings.HasPrefix(command, "<<") && !strings.ContainsAny(command, " \t"):
		command = in.Documents[0].Content
		if strings.HasPrefix(command, "#!") {
			command = "f=$(mktemp) && printf %s " + shellQuote(command) + ` >"$f" && chmod +x "$f" && "$f" && rm "$f"`
		}
	default: // the shell reads the heredocs
		if _, documents, there := strings.Cut(in.Text, "\n"); there {
			command += "\n" + documents
		}
	}
	p.step(command)
	return nil
}

// copy adds the step that writes the heredocs of ADD and COPY. It rejects other sources.
func (p *planner) copy(in dockerfile.Instruction) error {
	if len(in.Args) < 2 || len(in.Args) != len(in.Documents)+1 {
		return p.refuse(in)
	}
	target, err := p.inner.Expand(in.Args[len(in.Args)-1])
	if err != nil {
		return err
	}
	mode, chmod := in.Flag("chmod")
	if len(in.Flags) > 1 || len(in.Flags) == 1 && !chmod {
		return p.refuse(in)
	}
	for _, doc := range in.Documents {
		content, err := p.inner.ExpandDocument(doc)
		if err != nil {
			return err
		}
		file := p.absolute(target)
		if strings.HasSuffix(target, "/") {
			file = path.Join(file, doc.Name)
		}
		command := "mkdir -p " + shellQuote(path.Dir(file)) + " && printf %s " + shellQuote(content) + " >" + shellQuote(file)
		if chmod {
			command += " && chmod " + shellQuote(mode) + " " + shellQuote(file)
		}
		p.step(command)
	}
	return nil
}
