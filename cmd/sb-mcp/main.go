// Command sb-mcp is sb with the Model Context Protocol linked. "sb mcp" replaces its process with it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-0724f904/sb/commands"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/mcp"
)

// Set by the linker in release builds. Otherwise commands uses the go command's record.
var version, commit, date string //nolint:gochecknoglobals // the linker sets variables only

func main() {
	// A broken pipe to the client must not end this process: it must end sandboxes first.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(commands.Main(context.Background(), commands.Process{
		Streams:   iostreams.New(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv),
		LookupEnv: os.LookupEnv,
		Signals:   commands.NotifySignals(),
		Build:     commands.Build{Version: version, Commit: commit, Date: date},
		ServeMCP:  mcp.Serve,
		ListTools: mcp.ListTools,
	}, os.Args[1:]))
}
