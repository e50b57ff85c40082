package code

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// The languages that have programs and no sessions.
const (
	TypeScript Language = "typescript"
	Go         Language = "go"
	C          Language = "c"
	CPP        Language = "cpp"
	Rust       Language = "rust"
	Java       Language = "java"
	Ruby       Language = "ruby"
	R          Language = "r"
)

// ProgramLanguages returns the languages that have programs and no sessions.
func ProgramLanguages() []Language { return []Language{TypeScript, Go, C, CPP, Rust, Java, Ruby, R} }

// toolchain runs the programs of a language.
type toolchain struct {
	// names are the user's names of the language; files the endings of its files.
	names, files []string
	// tools are the commands that can run a program. The first one that a sandbox has is used. image has one of them.
	tools []string
	image string
	// source is the name of the program's file. Some tools need a certain one.
	source string
	// run is shell code. $d is the directory of the source, and $t the tool.
	run string
}

// toolchains returns the toolchains, by language.
func toolchains() map[Language]toolchain {
	return map[Language]toolchain{
		TypeScript: {
			names: []string{"typescript", "ts"}, files: []string{".ts", ".mts"},
			tools: []string{"deno", "bun", "tsx", "node"}, image: "denoland/deno:debian", source: "main.ts",
			run: `case $t in
deno) deno run --quiet --allow-all "$d/main.ts" ;;
node) node --experimental-strip-types --no-warnings "$d/main.ts" ;;
*) "$t" "$d/main.ts" ;;
esac`,
		},
		Go: {
			names: []string{"go", "golang"}, files: []string{".go"},
			tools: []string{"go", "/usr/local/go/bin/go"}, image: "golang:1.26", source: "main.go",
			run: `"$t" build -o "$d/main" "$d/main.go" && "$d/main"`,
		},
		C: {
			names: []string{"c"}, files: []string{".c"},
			tools: []string{"cc", "gcc", "clang"}, image: "gcc:15", source: "main.c",
			run: `"$t" -o "$d/main" "$d/main.c" -lm && "$d/main"`,
		},
		CPP: {
			names: []string{"cpp", "c++", "cxx"}, files: []string{".cc", ".cpp", ".cxx"},
			tools: []string{"c++", "g++", "clang++"}, image: "gcc:15", source: "main.cc",
			run: `"$t" -o "$d/main" "$d/main.cc" && "$d/main"`,
		},
		Rust: {
			names: []string{"rust", "rs"}, files: []string{".rs"},
			tools: []string{"rustc"}, image: "rust:1-slim", source: "main.rs",
			run: `"$t" -o "$d/main" "$d/main.rs" && "$d/main"`,
		},
		Java: {
			names: []string{"java"}, files: []string{".java"},
			tools: []string{"java"}, image: "eclipse-temurin:25", source: "Main.java",
			run: `"$t" "$d/Main.java"`,
		},
		Ruby: {
			names: []string{"ruby", "rb"}, files: []string{".rb"},
			tools: []string{"ruby"}, image: "ruby:3-slim", source: "main.rb",
			run: `"$t" "$d/main.rb"`,
		},
		R: {
			names: []string{"r"}, files: []string{".r", ".R"},
			tools: []string{"Rscript"}, image: "r-base:latest", source: "main.R",
			run: `"$t" "$d/main.R"`,
		},
	}
}

// ParseProgram returns the language of a name, or of one of its usual short names, if it has programs and no sessions.
func ParseProgram(name string) (Language, bool) {
	return programLanguage(func(t toolchain) bool { return slices.Contains(t.names, strings.ToLower(name)) })
}

func programLanguage(fits func(toolchain) bool) (Language, bool) {
	all := toolchains()
	for _, l := range ProgramLanguages() {
		if fits(all[l]) {
			return l, true
		}
	}
	return "", false
}

// HasSessions reports whether a language has sessions.
func (l Language) HasSessions() bool { return slices.Contains(Languages(), l) }

// Program is code of a language without sessions. It runs once, in a process of its own.
type Program struct {
	Language Language
	Code     string
}

// script receives the source's name and then the tools. The source is stdin. A signal goes to the whole process group,
// so the shell must survive it until the directory is removed.
const script = `f=$1
shift
for t; do command -v "$t" >/dev/null 2>&1 && break; done
command -v "$t" >/dev/null 2>&1 || exit 127
d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
trap : INT TERM HUP QUIT
cat >"$d/$f" || exit 1
`

// Command sets the command and the stdin of spec to those of the program. The program's own stdin is empty. Its exit
// code is that of the compiler if the program cannot be compiled.
func (p Program) Command(spec core.ExecSpec) (core.ExecSpec, error) {
	if len(p.Code) > MaxCode {
		return spec, core.Errorf(core.KindUsage, "code", "", "the code has more than %d MiB", MaxCode>>20)
	}
	t := toolchains()[p.Language]
	spec.Command = append([]string{"sh", "-c", script + t.run + "\nexit $?\n", "sb-code", t.source}, t.tools...)
	spec.Stdin = strings.NewReader(p.Code)
	return spec, nil
}

// notFound is the exit code of a shell that does not find a command. A program may return it, too.
const notFound = 127

// Explain returns the error of a program that ended with exit because the sandbox has no toolchain, or nil.
// KindUnsupported names an image that has one. Explain asks the sandbox only after the exit code of a missing command.
func (p Program) Explain(ctx context.Context, execs Starter, ref string, exit core.Exit) error {
	if exit.Code != notFound {
		return nil
	}
	t := toolchains()[p.Language]
	look := `for t; do command -v "$t" >/dev/null 2>&1 && exit 0; done; exit 3`
	process, err := execs.Start(ctx, ref, core.ExecSpec{
		Command: append([]string{"sh", "-c", look, "sb-code"}, t.tools...), Timeout: startTimeout,
	})
	if err != nil {
		return err
	}
	found, err := process.Wait(ctx)
	if err = errors.Join(err, process.Close()); err != nil || found.Code == 0 {
		return err
	}
	return core.Errorf(
		core.KindUnsupported, "code", ref, "the sandbox has no toolchain for %s: none of %s", p.Language,
		strings.Join(t.tools, ", "),
	).WithHint("launch one from an image that has it, such as %s", t.image)
}

// Output returns writers that emit output as events. They are safe for concurrent use.
func Output(emit func(Event)) (stdout, stderr io.Writer) {
	var mu sync.Mutex
	return &locked{&mu, &text{emit: emit, kind: EventStdout}}, &locked{&mu, &text{emit: emit, kind: EventStderr}}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
