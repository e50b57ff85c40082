package core_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesAreExplained checks that the documentation has a line with the reason for each direct dependency.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows string
	for line := range strings.Lines(string(page)) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			rows += ", " + first
		}
	}
	direct := 0
	for line := range strings.Lines(string(mod)) {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(words) != 2 || !strings.Contains(words[0], ".") || !strings.HasPrefix(words[1], "v") {
			continue
		}
		direct++
		if !strings.Contains(rows+",", ", "+words[0]+",") {
			t.Errorf("docs/architecture.md does not say why %s", words[0])
		}
	}
	if direct < 20 {
		t.Errorf("go.mod has %d direct dependencies: it was not understood", direct)
	}
}

const module = "github.com/seed-0724f904/sb"

// layers lists the packages of this module that each part may import, besides its own subpackages. A part is the
// longest key that is a prefix of a package's path. An entry that ends in /... includes the subpackages. Every part may
// also import the packages below internal, which import none of them.
var layers = map[string][]string{
	"internal":          {},
	"core":              {},
	"core/price":        {"core"},
	"core/code":         {"core"},
	"core/packages":     {"core"},
	"core/redact":       {"core"},
	"core/origin":       {},
	"core/service":      {"core", "core/origin", "core/price", "core/redact"},
	"core/agent":        {"core", "core/redact"},
	"core/transfer":     {"core", "core/origin"},
	"core/programtest":  {},
	"core/providertest": {"core", "core/code"},
	"core/providers":    {"core", "core/packages", "core/providers/..."},
	"configs":           {"core", "core/price", "core/service", "core/providers/modal/modalspec"},
	"tui":               {"core", "core/service", "core/transfer"},
	"commands": {
		"core", "core/code", "core/origin", "core/packages", "core/service", "core/providers", "core/transfer", "configs",
		"tui", "tui/theme", "mcp/setup", "mcp/keys", "mcp/clients",
	},
	"mcp":         {"core", "core/service", "mcp/..."},
	"mcp/setup":   {"core", "core/service"},
	"mcp/auth":    {"core", "mcp/keys", "mcp/setup"},
	"mcp/session": {"core", "core/service", "mcp/auth"},
	"mcp/reply":   {"core", "core/redact"},
	"mcp/links":   {"core", "core/service", "mcp/auth", "mcp/problem", "mcp/reply"},
	"mcp/tools": {
		"core", "core/code", "core/redact", "core/service", "core/transfer", "mcp/auth", "mcp/links", "mcp/reply",
		"mcp/session", "mcp/setup",
	},
	"mcp/problem": {"core"},
	"mcp/rest": {
		"core", "core/code", "core/redact", "mcp/auth", "mcp/links", "mcp/problem", "mcp/reply", "mcp/setup", "mcp/tools",
	},
	"mcp/compat":     {"core", "core/transfer", "mcp/links", "mcp/setup", "mcp/tools"},
	"mcp/transport":  {"core", "mcp/auth", "mcp/links", "mcp/problem", "mcp/session", "mcp/setup"},
	"mcp/keys":       {"core", "core/service"},
	"mcp/clients":    {"core"},
	"cmd/sb-mcp":     {"commands", "commands/iostreams", "mcp"},
	"cmd/sb":         {"commands", "commands/iostreams"},
	"cmd/sb-guest":   {"core/agent/inside"},
	"cmd/sb-runtime": {"core/providers/local/runtime/..."},
	"examples":       {},
	"docs":           {},
	// A provider imports no other provider. Each new one gets its own line.
	"core/providers/local": {
		"core", "core/agent/guest", "core/agent/journal", "core/agent/wire", "core/packages", "core/providers/local/build",
		"core/providers/local/image/...",
	},
	"core/providers/local/build":       {"core", "core/providers/local/image/..."},
	"core/providers/local/image":       {"core", "core/providers/local/store", "core/providers/local/image/..."},
	"core/providers/local/image/erofs": {},
	"core/providers/local/runtime":     {"core", "core/agent/...", "core/providers/local/..."},
	"core/providers/docker": {
		"core", "core/agent/guest", "core/agent/journal", "core/agent/wire", "core/providers/docker/...",
	},
	"core/providers/docker/engine": {"core"},
	"core/providers/docker/image":  {"core", "core/providers/docker/engine"},
	"core/providers/fake":          {"core", "core/redact"},
	"core/providers/modal":         {"core", "core/agent/guest", "core/providers/modal/..."},
	"core/providers/modal/client":  {"core"},
	"core/providers/modal/files":   {"core", "core/agent/guest"},
}

// owners lists the only parts that may import a library.
var owners = map[string][]string{
	"gvisor.dev/gvisor":               {"core/providers/local/runtime"},
	"github.com/spf13/viper":          {"configs"},
	"github.com/spf13/cobra":          {"commands"},
	"github.com/spf13/pflag":          {"commands"},
	"github.com/charmbracelet":        {"commands", "tui"},
	"charm.land":                      {"commands", "tui"},
	"github.com/sahilm/fuzzy":         {"tui"},
	"google.golang.org/grpc":          {"core/providers/local", "core/providers/modal"},
	"google.golang.org/protobuf":      {"core/providers/local", "core/providers/docker", "core/providers/modal"},
	"github.com/modal-labs":           {"core/providers/modal"},
	"github.com/golang-jwt":           {"core/providers/modal"},
	"github.com/pelletier/go-toml":    {"core/providers/modal", "mcp/clients"},
	"github.com/go-git/go-git":        {"core/transfer"},
	"mvdan.cc/sh":                     {"core/providers/fake"},
	"github.com/mark3labs":            {"mcp"},
	"github.com/google/jsonschema-go": {"mcp", "configs"},
	"github.com/moby/moby":            {"core/providers/docker"},
	"github.com/moby/patternmatcher":  {"core/providers/docker", "core/providers/local/build"},
	"github.com/moby/buildkit": {
		"core/providers/docker", "core/providers/local/build", "core/providers/modal",
	},
	"github.com/docker/cli":                  {"core/providers/docker"},
	"github.com/google/go-containerregistry": {"core/providers/local/build", "core/providers/local/image"},
	"github.com/klauspost/compress":          {"core/providers/local/build", "core/providers/local/image"},
}

// programs lists the packages that a program must not link, even indirectly.
var programs = map[string][]string{
	"core":         {"github.com", "google.golang.org", "gvisor.dev", "go.yaml.in"},
	"cmd/sb":       {"gvisor.dev", "github.com/mark3labs", "github.com/google/jsonschema-go"},
	"cmd/sb-guest": {"github.com", "google.golang.org", "gvisor.dev", "go.yaml.in"},
}

type listed struct {
	ImportPath string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// list returns this module's packages as built for an operating system.
func list(t *testing.T, goos string, patterns ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(), "go", append([]string{"list", "-json=ImportPath,Name,GoFiles,Imports,Deps"}, patterns...)...,
	)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func below(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// part returns the layer of a package of this module, or "".
func part(path string) string {
	best := ""
	for name := range layers {
		if below(path, name) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

func mayImport(from, to string) bool {
	if below(to, from) && part(to) == from || below(to, "internal") {
		return true
	}
	return slices.ContainsFunc(layers[from], func(allowed string) bool {
		if prefix, all := strings.CutSuffix(allowed, "/..."); all {
			return below(to, prefix)
		}
		return to == allowed
	})
}

func TestLayers(t *testing.T) {
	for _, p := range list(t, "linux", "./...") {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		from := part(path)
		if from == "" || from == "core/providers" && path != from {
			t.Errorf("%s belongs to no layer: say in this test what it may import", path)
			continue
		}
		for _, imported := range p.Imports {
			if to, own := strings.CutPrefix(imported, module+"/"); own {
				if !mayImport(from, to) {
					t.Errorf("%s imports %s, which %s may not", path, to, from)
				}
				continue
			}
			for library, parts := range owners {
				if below(imported, library) && !slices.ContainsFunc(parts, func(owner string) bool { return below(path, owner) }) {
					t.Errorf("%s imports %s, which only %s may", path, imported, strings.Join(parts, " and "))
				}
			}
		}
	}
}

// Linked packages cost start-up time, so the check covers every system that the program is built for.
func TestLinked(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for name, forbidden := range programs {
			if goos != "linux" && strings.HasPrefix(name, "cmd/sb-") {
				continue
			}
			packages := list(t, goos, "./"+name)
			if len(packages) != 1 {
				t.Fatalf("go list ./%s printed %d packages", name, len(packages))
			}
			for _, dep := range packages[0].Deps {
				if below(dep, module) {
					continue
				}
				for _, prefix := range forbidden {
					if below(dep, prefix) {
						t.Errorf("%s on %s links %s", name, goos, dep)
					}
				}
			}
		}
	}
}

// TestPackageDocs checks that each package's comment is in doc.go and has three facts: the content of the package, the
// imports that it may have, and the place to start reading.
func TestPackageDocs(t *testing.T) {
	packages := list(t, "linux", "./...")
	if len(packages) < 50 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, p := range packages {
		if p.Name == "main" || len(p.GoFiles) == 0 {
			continue
		}
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		file, err := parser.ParseFile(
			token.NewFileSet(), filepath.Join("..", path, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly,
		)
		if err != nil {
			t.Errorf("%s has no doc.go: %v", path, err)
			continue
		}
		doc := strings.Join(strings.Fields(file.Doc.Text()), " ")
		if !strings.HasPrefix(doc, "Package "+p.Name+" ") || !strings.Contains(doc, "import") ||
			!strings.Contains(doc, " Start ") {
			t.Errorf("%s/doc.go: say what lives there, what it may import, and where to start reading: %q", path, doc)
		}
	}
}
