package guest

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/seed-0724f904/sb/core"
)

// Program is argv[0] of the helper.
const Program = "sb-guest"

// Version is the protocol's version; both sides must agree on it.
const Version = 1

// ControlFD is the helper's descriptor of Control messages. The Report of how it ended goes to descriptor 2.
const ControlFD = 3

// Modes are the helper's first arguments.
const (
	ModeInit  = "init"
	ModePTY   = "pty"
	ModeFiles = "files"
	ModeWatch = "watch"
	ModeDial  = "dial"
)

// Op names a file operation.
type Op string

// The operations.
const (
	OpStat    Op = "stat"    // returns one Entry line
	OpReadDir Op = "readdir" // returns Entry lines sorted by name
	OpRead    Op = "read"    // returns the file's content
	OpWrite   Op = "write"   // body: the framed content
	OpMkdir   Op = "mkdir"
	OpRemove  Op = "remove"
	OpExport  Op = "export" // returns a tar archive
	OpImport  Op = "import" // body: a tar archive
)

// TypeSocket is the type of a socket's entry in the archive of OpExport. The entry has no content: it names a file that
// the archive leaves out. POSIX's pax(1) reserves the types A to Z for such use.
const TypeSocket = 'U'

// Request is one file operation. Path is absolute and clean.
type Request struct {
	Version   int    `json:"v"`
	Op        Op     `json:"op"`
	Path      []byte `json:"path"`
	Mode      uint32 `json:"mode,omitempty"` // permission bits, for OpWrite; 0 as in core.WriteOptions
	Parents   bool   `json:"parents,omitempty"`
	Append    bool   `json:"append,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
	KeepOwner bool   `json:"keep_owner,omitempty"`
	// DirectoryModes is core.ImportOptions.DirectoryModes.
	DirectoryModes bool `json:"directory_modes,omitempty"`
	// Framed means that the body of OpImport has the frames of OpWrite's body, and ends with its last frame.
	Framed bool `json:"framed,omitempty"`
}

// Argv returns the command line that runs r. It sets r's version.
func (r Request) Argv() ([]string, error) {
	r.Version = Version
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return []string{Program, ModeFiles, string(text)}, nil
}

// ParseRequest reads the JSON of a command line that Argv made. Its errors are core.KindUsage.
func ParseRequest(text string) (Request, error) {
	var r Request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Request{}, core.Errorf(core.KindUsage, "files", "", "the request is not valid: %w", err)
	}
	if r.Version != Version {
		return Request{}, core.Errorf(
			core.KindUnsupported, string(r.Op), "", "request has version %d, sb-guest speaks %d", r.Version, Version,
		)
	}
	if len(r.Path) == 0 || r.Path[0] != '/' {
		return Request{}, core.Errorf(core.KindUsage, string(r.Op), string(r.Path), "path is not absolute")
	}
	if slices.Contains(r.Path, 0) {
		return Request{}, core.Errorf(core.KindUsage, string(r.Op), "", "path holds a NUL byte")
	}
	return r, nil
}

// InitArgv returns the command line of the sandbox's first process.
func InitArgv() []string { return []string{Program, ModeInit} }

// PTYArgv returns the command line that runs command on a terminal of size.
func PTYArgv(size core.TerminalSize, command []string) []string {
	argv := []string{Program, ModePTY, strconv.Itoa(int(size.Rows)), strconv.Itoa(int(size.Cols))}
	return append(argv, command...)
}

// ParsePTYArgs parses the arguments after ModePTY in a command line of PTYArgv.
func ParsePTYArgs(args []string) (core.TerminalSize, []string, error) {
	if len(args) < 3 || args[2] == "" {
		return core.TerminalSize{}, nil, core.Errorf(
			core.KindUsage, ModePTY, "", "usage: sb-guest pty ROWS COLS COMMAND [ARG]…",
		)
	}
	size, err := parseSize(args[0], args[1])
	if err != nil {
		return core.TerminalSize{}, nil, err
	}
	return size, args[2:], nil
}

func parseSize(rows, cols string) (core.TerminalSize, error) {
	r, rowsErr := strconv.ParseUint(rows, 10, 16)
	c, colsErr := strconv.ParseUint(cols, 10, 16)
	if rowsErr != nil || colsErr != nil {
		return core.TerminalSize{}, core.Errorf(core.KindUsage, ModePTY, rows+"x"+cols, "not a terminal size")
	}
	return core.TerminalSize{Rows: uint16(r), Cols: uint16(c)}, nil
}

// DialArgv is the command line that connects to a port. Descriptor 0 carries the bytes to the port. Descriptor 1
// carries a zero byte after the connection is made, then the bytes from the port. Both may be one socket. It exits with
// 1 when no process listens.
func DialArgv(port uint16) []string {
	return []string{Program, ModeDial, strconv.Itoa(int(port))}
}
