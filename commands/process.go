package commands

import "github.com/seed-0724f904/sb/commands/internal/cli"

// Process holds the streams, environment and signals that the operating system gives a program.
type Process = cli.Process

// Build describes the program.
type Build = cli.Build

// NotifySignals starts to catch the signals that end or concern a program.
func NotifySignals() *cli.Signals { return cli.NotifySignals() }
