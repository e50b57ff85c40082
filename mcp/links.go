package mcp

func linkTools() []Tool { return nil }

type links struct{}
