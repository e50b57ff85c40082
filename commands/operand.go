package commands

import (
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
)

// operand is one side of a copy: a path here, a path in a sandbox, or "-" for a stream.
type operand struct {
	sandbox string // "" is this machine
	path    string
}

// parseOperand reads PATH, SANDBOX:PATH or "-". What begins with a dot, a slash or a colon, or has two slashes or
// a backslash before its first colon, is a path here.
func parseOperand(text string) (operand, error) {
	if text == "" {
		return operand{}, core.Errorf(core.KindUsage, "cp", "", "a path is empty")
	}
	sandbox, path, remote := strings.Cut(text, ":")
	if !remote || sandbox == "" || strings.HasPrefix(sandbox, ".") || strings.HasPrefix(sandbox, "/") || strings.Contains(sandbox, `\`) {
		return operand{path: text}, nil
	}
	// PROVIDER/NAME:PATH is a sandbox; deeper paths are not.
	if strings.Count(sandbox, "/") > 1 {
		return operand{path: text}, nil
	}
	if path == "" {
		path = "."
	}
	return operand{sandbox: sandbox, path: path}, nil
}

// inside reads SANDBOX[:PATH]; without a path it is the workdir.
func inside(text string) transfer.Endpoint {
	sandbox, path, _ := strings.Cut(text, ":")
	if path == "" {
		path = "."
	}
	return transfer.Endpoint{Sandbox: sandbox, Path: path}
}
