package files

import (
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
)

// Operand is one side of a copy: a local path, a path in a sandbox, or "-" for a stream.
type Operand struct {
	Sandbox string // "" means this machine
	Path    string
}

// ParseOperand reads PATH, SANDBOX:PATH or "-". A text that begins with a dot, a slash or a colon is a local path. So
// is one with two slashes or a backslash before its first colon.
func ParseOperand(text string) (Operand, error) {
	if text == "" {
		return Operand{}, core.Errorf(core.KindUsage, "cp", "", "a path is empty")
	}
	sandbox, path, remote := strings.Cut(text, ":")
	if !remote || sandbox == "" || strings.HasPrefix(sandbox, ".") || strings.HasPrefix(sandbox, "/") ||
		strings.Contains(sandbox, `\`) {
		return Operand{Path: text}, nil
	}
	// PROVIDER/NAME:PATH is a sandbox; deeper paths are not.
	if strings.Count(sandbox, "/") > 1 {
		return Operand{Path: text}, nil
	}
	if path == "" {
		path = "."
	}
	return Operand{Sandbox: sandbox, Path: path}, nil
}

// inside parses SANDBOX[:PATH]. Without a path it is the workdir.
func inside(text string) transfer.Endpoint {
	sandbox, path, _ := strings.Cut(text, ":")
	if path == "" {
		path = "."
	}
	return transfer.Endpoint{Sandbox: sandbox, Path: path}
}
