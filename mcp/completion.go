package mcp

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// completer completes arguments of prompts and resource templates: ids, commands, and paths in sandboxes and here.
type completer struct{ host *tools.Host }

// maxCompletions is the protocol's limit.
const maxCompletions = 100

// CompletePromptArgument implements server.PromptCompletionProvider.
func (c completer) CompletePromptArgument(
	ctx context.Context, _ string, argument mcp.CompleteArgument, _ mcp.CompleteContext,
) (*mcp.Completion, error) {
	switch argument.Name {
	case "sandbox":
		return completion(c.sandboxes(ctx, true), argument.Value), nil
	case "gpu":
		types := c.host.Options.Policy.GPUs
		switch {
		case slices.Equal(types, []string{"none"}):
			types = nil
		case len(types) == 0:
			types = []string{"T4", "L4", "A10G", "A100-40GB", "A100-80GB", "L40S", "H100", "H200", "B200"}
		}
		return completion(types, argument.Value), nil
	case "source", "project", "script":
		return completion(
			c.host.Call(ctx, mcp.CallToolRequest{}).CompleteHostPath(argument.Value), argument.Value,
		), nil
	case "test":
		return completion(
			[]string{"cargo test", "go test ./...", "make test", "mvn test", "npm test", "python3 -m unittest", "pytest"},
			argument.Value,
		), nil
	}
	return completion(nil, ""), nil
}

// CompleteResourceArgument implements server.ResourceCompletionProvider.
func (c completer) CompleteResourceArgument(
	ctx context.Context, _ string, argument mcp.CompleteArgument, known mcp.CompleteContext,
) (*mcp.Completion, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	switch argument.Name {
	case "id":
		return completion(c.sandboxes(ctx, false), argument.Value), nil
	case "stream":
		return completion([]string{string(core.Stdout), string(core.Stderr)}, argument.Value), nil
	case "exec":
		return completion(c.execs(ctx, known.Arguments["id"]), argument.Value), nil
	case "path":
		return completion(c.paths(ctx, known.Arguments["id"], argument.Value), argument.Value), nil
	}
	return completion(nil, ""), nil
}

func completion(values []string, prefix string) *mcp.Completion {
	fitting := []string{}
	for _, value := range values {
		if strings.HasPrefix(value, prefix) {
			fitting = append(fitting, value)
		}
	}
	slices.Sort(fitting)
	fitting = slices.Compact(fitting)
	total := len(fitting)
	return &mcp.Completion{Values: fitting[:min(total, maxCompletions)], Total: total, HasMore: total > maxCompletions}
}

// sandboxes lists the ids and names that the caller sees. After an error it is empty.
func (c completer) sandboxes(ctx context.Context, liveOnly bool) []string {
	listing, err := c.host.Call(ctx, mcp.CallToolRequest{}).Service.Sandboxes.List(ctx, core.ListFilter{All: !liveOnly})
	if err != nil {
		return nil
	}
	var names []string
	for _, sb := range listing.Sandboxes {
		names = append(names, sb.ID, sb.Name)
	}
	return names
}

func (c completer) execs(ctx context.Context, sandbox string) []string {
	call := c.host.Call(ctx, mcp.CallToolRequest{})
	sb, err := call.Resolve(ctx, sandbox)
	if err != nil {
		return nil
	}
	execs, err := call.Service.Execs.List(ctx, sb.Ref())
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range execs {
		ids = append(ids, e.ID)
	}
	return ids
}

// paths completes the last element of a path. A directory gets a slash, so that the next completion starts below it.
func (c completer) paths(ctx context.Context, sandbox, typed string) []string {
	call := c.host.Call(ctx, mcp.CallToolRequest{})
	sb, err := call.Resolve(ctx, sandbox)
	if err != nil {
		return nil
	}
	dir, _ := path.Split(typed)
	infos, err := call.Service.Files.ReadDir(ctx, sb.Ref(), path.Join("/", dir))
	if err != nil {
		return nil
	}
	var paths []string
	for _, info := range infos {
		name := c.host.Secrets.Clean(sb.ID, dir+path.Base(info.Path))
		if info.Mode&fs.ModeDir != 0 {
			name += "/"
		}
		paths = append(paths, name)
	}
	return paths
}
