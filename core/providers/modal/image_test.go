package modal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// A recipe has all requirements of the spec for the image, or recipeOf rejects the spec.
func TestRecipeCoversSpec(t *testing.T) {
	for name, spec := range map[string]core.Spec{
		"image":      {Python: "3.12", Image: "debian:11"},
		"snapshot":   {Python: "3.12", Snapshot: "im-1"},
		"dockerfile": {Python: "3.12", Dockerfile: "Dockerfile"},
	} {
		if r, err := recipeOf(spec); !errors.Is(err, core.KindUnsupported) || core.HintOf(err) == "" {
			t.Errorf("Python over a %s: %+v, %v", name, r, err)
		}
	}
	if r, err := recipeOf(core.Spec{Python: "3.12", Image: defaultImage}); err != nil || r.Base != "python:3.12-slim" {
		t.Errorf("Python: %+v, %v", r, err)
	}
	for _, snapshot := range []string{"im-1", "kept"} {
		if r, err := recipeOf(core.Spec{Snapshot: snapshot, Pip: []string{"six"}}); err != nil || r.ID+r.Published == "" ||
			len(r.Commands) != 1 {
			t.Errorf("a package over a snapshot: %+v, %v", r, err)
		}
	}
}

// A Dockerfile's FROM becomes the base. The instructions below it reach Modal with BuildKit's meaning.
func TestReadDockerfile(t *testing.T) {
	for name, test := range map[string]struct {
		text, base string
		commands   []string
	}{
		"plain":        {"FROM debian:12\nRUN true\n", "debian:12", []string{"RUN true"}},
		"platform":     {"FROM --platform=linux/amd64 python:3.12 AS app\nRUN true\n", "python:3.12", []string{"RUN true"}},
		"own platform": {"FROM --platform=$BUILDPLATFORM python:3.12\n", "python:3.12", nil},
		"lower case":   {"from debian:12\nrun true\n", "debian:12", []string{"run true"}},
		"arg":          {"ARG V=3.12\nARG IMAGE=python:${V}-slim\nFROM ${IMAGE}\n", "python:3.12-slim", nil},
		"arg, default": {"ARG V\nFROM python:${V:-3.12}\n", "python:3.12", nil},
		"arg, inside": {
			"ARG V=3.12\nFROM python:$V\nARG V\nARG W=2\nRUN echo $V\n", "python:3.12",
			[]string{`ARG V="3.12"`, "ARG W=2", "RUN echo $V"},
		},
		"comment": {
			"FROM debian:12\nRUN apt-get update && \\\n    # the tools\n    apt-get install -y \\\n      git\n", "debian:12",
			[]string{"RUN apt-get update &&     apt-get install -y       git"},
		},
		"windows lines": {
			"# a comment\r\nFROM debian:12\r\nRUN echo a \\\r\n  b\r\n", "debian:12", []string{"RUN echo a   b"},
		},
		"byte order": {"\ufeffFROM debian:12\n", "debian:12", nil},
		"directive":  {"# syntax=docker/dockerfile:1\nFROM debian:12\n", "debian:12", nil},
		"heredoc": {
			"FROM debian:12\nRUN <<EOF\n# kept\necho a\nCOPY a b\nFROM x\nEOF\nRUN true\n", "debian:12",
			[]string{"RUN <<EOF\n# kept\necho a\nCOPY a b\nFROM x\nEOF", "RUN true"},
		},
		"heredoc of a command": {
			"FROM debian:12\nRUN cat <<A >/a && cat <<-B >/b\n1\nA\n\t2\n\tB\n", "debian:12",
			[]string{"RUN cat <<A >/a && cat <<-B >/b\n1\nA\n\t2\nB"},
		},
		"copied heredoc": {
			"FROM debian:12\nCOPY --chmod=755 <<EOF /a\nx\nEOF\n", "debian:12", []string{"ADD --chmod=755 <<EOF /a\nx\nEOF"},
		},
		"add a page": {
			"FROM debian:12\nADD https://example.com/a.tar.gz /a/\n", "debian:12",
			[]string{"ADD https://example.com/a.tar.gz /a/"},
		},
		"add by name": {
			"FROM debian:12\nARG V=1\nENV SITE=https://example.com\nADD --checksum=sha256:0 ${SITE}/$V /a/\n", "debian:12",
			[]string{"ARG V=1", "ENV SITE=https://example.com", "ADD --checksum=sha256:0 ${SITE}/$V /a/"},
		},
		"add git": {
			"FROM debian:12\nADD git@github.com:a/b.git /b\n", "debian:12", []string{"ADD git@github.com:a/b.git /b"},
		},
		"from an image": {
			"FROM debian:12\nCOPY --from=alpine:3 /etc/os-release /a\n", "debian:12",
			[]string{"COPY --from=alpine:3 /etc/os-release /a"},
		},
		"from comes first": {
			"FROM debian:12\nCOPY --chmod=644 --from=alpine:3 a b\n", "debian:12",
			[]string{"COPY --from=alpine:3 --chmod=644 a b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := readDockerfile(test.text); err != nil || r.Base != test.base ||
				!slices.Equal(r.Commands, test.commands) {
				t.Errorf("base %q, commands %q, %v", r.Base, r.Commands, err)
			}
		})
	}
}

// The error for a Dockerfile that Modal cannot build names the line or the instruction.
func TestReadDockerfileRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		text, message string
		kind          core.Kind
	}{
		"nothing":          {"", "no instructions", core.KindUsage},
		"no base":          {"ARG V=1\n", "no FROM", core.KindUsage},
		"before the base":  {"RUN true\nFROM debian:12\n", "line 1", core.KindUsage},
		"stages":           {"FROM debian:12\nFROM alpine\n", "line 2", core.KindUsage},
		"another platform": {"FROM --platform=linux/arm64 debian:12\n", "linux/arm64", core.KindUnsupported},
		"no value":         {"ARG V\nFROM $V\n", "FROM $V", core.KindUsage},
		"a file":           {"FROM debian:12\n\nCOPY a b\n", "line 3", core.KindUsage},
		"a file with mode": {"FROM debian:12\nCOPY --chmod=755 a b\n", "COPY a", core.KindUsage},
		"a list of files":  {"FROM debian:12\nADD [\"a\", \"/b\"]\n", "ADD a", core.KindUsage},
		"file beside page": {"FROM debian:12\nADD https://example.com/a a /b/\n", "ADD a", core.KindUsage},
		"file on lines":    {"FROM debian:12\nCOPY \\\n# not here\n  a b\n", "line 2", core.KindUsage},
		"no end":           {"FROM debian:12\nRUN <<EOF\ntrue\n", "line 2", core.KindUsage},
		"another escape":   {"# escape=`\nFROM debian:12\n", "escape", core.KindUsage},
		"a broken word":    {"ARG V=1\nFROM ${V\n", "line 2", core.KindUsage},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readDockerfile(test.text); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A Dockerfile is untrusted. For any content the reader ends, and without an error it returns a base.
func FuzzReadDockerfile(f *testing.F) {
	for _, text := range []string{
		"FROM a\nRUN <<E\nE\n", "ARG A=${B:-c}\nFROM --platform=$A b\nARG A\n",
		"FROM a\nCOPY --from=b [\"c\", \"d\"]\nADD https://x y", "FROM a\nENV a b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := readDockerfile(text); err == nil && r.Base == "" {
			t.Errorf("%q has no base", text)
		}
	})
}
