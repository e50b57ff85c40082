// Command sb manages sandboxes.
package main

import (
	"context"
	"os"

	"github.com/seed-0724f904/sb/commands"
	"github.com/seed-0724f904/sb/commands/iostreams"
)

// The linker sets these in release builds. Otherwise commands uses the go command's record.
var version, commit, date string //nolint:gochecknoglobals // the linker sets variables only

func main() {
	os.Exit(commands.Main(context.Background(), commands.Process{
		Streams:   iostreams.New(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv),
		LookupEnv: os.LookupEnv,
		Signals:   commands.NotifySignals(),
		Build:     commands.Build{Version: version, Commit: commit, Date: date},
		Become:    become,
	}, os.Args[1:]))
}
