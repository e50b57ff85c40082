package modal

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/dockerfile"
)

// platformVariables returns the variables that BuildKit declares before the first FROM, with the values of Modal's
// machines.
func platformVariables() dockerfile.Variables {
	v := dockerfile.Variables{}
	for _, prefix := range []string{"TARGET", "BUILD"} {
		v[prefix+"PLATFORM"], v[prefix+"OS"], v[prefix+"ARCH"] = modalPlatform, "linux", "amd64"
	}
	return v
}

// modalPlatform is the platform of Modal's machines.
const modalPlatform = "linux/amd64"

// readDockerfile converts a Dockerfile to a recipe: its FROM is the base, the rest are commands. KindUsage: it cannot
// be read, has more than one stage, or needs files of this machine. KindUnsupported: it is for another platform than
// Modal's.
func readDockerfile(text string) (recipe, error) {
	var r recipe
	instructions, err := dockerfile.Parse(text)
	if err != nil {
		return r, core.Errorf(core.KindUsage, "modal.launch", "", "the Dockerfile cannot be read: %w", err)
	}
	outer, inner := platformVariables(), dockerfile.Variables{}
	for _, in := range instructions {
		switch {
		case in.Verb == "FROM" && r.Base == "":
			r.Base, err = baseOf(in, outer)
		case in.Verb == "FROM":
			err = atLine(in, "a second FROM: builds of several stages are not supported").
				WithHint("build it elsewhere and name the image")
		case in.Verb == "ARG" && r.Base == "":
			err = outer.Declare(in, nil)
		case r.Base == "":
			err = atLine(in, "%s before the first FROM", in.Verb)
		default:
			if err = inner.Declare(in, outer); err == nil {
				var command string
				command, err = commandOf(in, outer, inner)
				r.Commands = append(r.Commands, command)
			}
		}
		if err != nil {
			//nolint:errorlint // a word that cannot be expanded is the parser's error
			if _, classified := err.(*core.Error); !classified {
				err = atLine(in, "%w", err)
			}
			return recipe{}, err
		}
	}
	if r.Base == "" {
		return r, core.Errorf(core.KindUsage, "modal.launch", "", "the Dockerfile has no FROM")
	}
	return r, nil
}

// atLine returns a usage error about one instruction.
func atLine(in dockerfile.Instruction, format string, args ...any) *core.Error {
	return core.Errorf(core.KindUsage, "modal.launch", "", "line %d of the Dockerfile: "+
		format, append([]any{in.Line}, args...)...)
}

// baseOf returns the image that FROM names.
func baseOf(in dockerfile.Instruction, outer dockerfile.Variables) (string, error) {
	if len(in.Args) == 0 {
		return "", atLine(in, "FROM names no image")
	}
	if platform, there := in.Flag("platform"); there {
		platform, err := outer.Expand(platform)
		if err != nil {
			return "", err
		}
		if platform != "linux" && platform != "linux/x86_64" && platform != modalPlatform {
			return "", core.Errorf(core.KindUnsupported, "modal.launch", platform,
				"Modal's machines are %s, and line %d of the Dockerfile asks for %s",
				modalPlatform, in.Line, platform)
		}
	}
	base, err := outer.Expand(in.Args[0])
	if err == nil && base == "" {
		err = atLine(in, "FROM %s: the variable has no value", in.Args[0]).
			WithHint("give it a default: ARG NAME=VALUE before FROM")
	}
	return base, err
}

// commandOf returns an instruction in Modal's form. Modal receives only the instructions below FROM. So an ARG without
// a default gets its value from above FROM.
func commandOf(in dockerfile.Instruction, outer, inner dockerfile.Variables) (string, error) {
	switch in.Verb {
	case "ARG":
		words := slices.Clone(in.Args)
		for i, word := range words {
			if value, known := outer[word]; known {
				words[i] = word + "=" + strconv.Quote(strings.ReplaceAll(value, "$", `\$`))
			}
		}
		return "ARG " + strings.Join(words, " "), nil
	case "ADD", "COPY":
		return copyOf(in, inner)
	}
	return in.Text, nil
}

// copyOf returns an ADD or COPY that needs no file of this machine. The SDK rejects a COPY whose first flag is not
// --from.
func copyOf(in dockerfile.Instruction, inner dockerfile.Variables) (string, error) {
	_, fromImage := in.Flag("from")
	documents := 0
	for _, source := range in.Args[:max(len(in.Args)-1, 0)] {
		expanded, err := inner.Expand(source)
		if err != nil {
			return "", err
		}
		switch {
		case in.IsDocument(source):
			documents++
		case fromImage, in.Verb == "ADD" && remote(expanded):
		default:
			return "", atLine(in, "%s %s copies from this machine, whose files Modal does not have", in.Verb, source).
				WithHint("leave the line out and push the files with: sb push")
		}
	}
	switch {
	case in.Verb == "ADD":
		return in.Text, nil
	case documents > 0: // ADD handles documents like COPY, and the SDK accepts it
		return "ADD" + in.Text[len("COPY"):], nil
	}
	return fromFirst(in), nil
}

// remote reports whether ADD fetches a source itself.
func remote(source string) bool {
	for _, prefix := range []string{"http://", "https://", "git://", "ssh://", "git@"} {
		if strings.HasPrefix(source, prefix) {
			return true
		}
	}
	return false
}

// fromFirst writes COPY with --from as its first flag.
func fromFirst(in dockerfile.Instruction) string {
	rest := strings.TrimSpace(in.Text[len("COPY"):])
	flags := slices.Clone(in.Flags)
	for _, flag := range flags {
		after, plain := strings.CutPrefix(rest, flag)
		if !plain { // quoted: unchanged
			return in.Text
		}
		rest = strings.TrimSpace(after)
	}
	if i := slices.IndexFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--from=") }); i > 0 {
		flags = slices.Concat(flags[i:i+1], flags[:i], flags[i+1:])
	}
	return "COPY " + strings.Join(append(flags, rest), " ")
}
