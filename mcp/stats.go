package mcp

import "time"

// stats counts what the server did. The zero value is ready.
type stats struct{}

func (*stats) called(tool, outcome string, took time.Duration) {}
