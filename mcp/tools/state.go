package tools

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type forkIn struct {
	Sandbox string `json:"sandbox"`
	Name    string `json:"name,omitempty" jsonschema:"name of the copy"`
	Keep    bool   `json:"keep_after_disconnect,omitempty" jsonschema:"keeps it running after this client disconnects"`
}

type checkpointIn struct {
	Sandbox string `json:"sandbox"`
	Name    string `json:"name,omitempty" jsonschema:"name of the checkpoint"`
}

type checkpointNameIn struct {
	Name string `json:"name" jsonschema:"name of the checkpoint, or provider/name"`
}

type checkpointInfo struct {
	Name     string    `json:"name" jsonschema:"for the argument checkpoint of sandbox_launch"`
	Provider string    `json:"provider"`
	Of       string    `json:"of" jsonschema:"name of its sandbox"`
	Created  time.Time `json:"created"`
	Size     int64     `json:"size_bytes,omitempty"`
}

func checkpointOf(c core.Checkpoint) checkpointInfo {
	return checkpointInfo{Name: c.Name, Provider: c.Provider, Of: c.Of, Created: c.Created, Size: int64(c.Size)}
}

func (o checkpointInfo) Text() string {
	return fmt.Sprintf("%s at %s, of %s, %s", o.Name, o.Provider, o.Of, o.Created.UTC().Format(time.RFC3339))
}

type checkpointsOut struct {
	Checkpoints []checkpointInfo `json:"checkpoints"`
	Failures    []string         `json:"failures,omitempty" jsonschema:"providers that did not answer, and why"`
}

func (o checkpointsOut) Text() string {
	if len(o.Checkpoints)+len(o.Failures) == 0 {
		return "no checkpoints"
	}
	var lines []string
	for _, c := range o.Checkpoints {
		lines = append(lines, c.Text())
	}
	return list(slices.Concat(o.Failures, lines))
}

type removedOut struct {
	Removed string `json:"removed"`
}

func (o removedOut) Text() string { return "removed " + o.Removed }

func stateTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "sandbox_fork", Title: "Fork a sandbox", Toolset: setup.State, Extra: true, Continues: true,
			Description: "Copy a running sandbox with its files, processes and memory. The copy is a new sandbox, " +
				"and the original continues.",
		}, fork),
		Define(Tool{
			Name: "checkpoint", Title: "Checkpoint a sandbox", Toolset: setup.State, Extra: true, Continues: true,
			Description: "Save the memory, processes and files of a running sandbox under a name. sandbox_launch " +
				"with that checkpoint continues from it.",
		}, checkpoint),
		Define(Tool{
			Name: "checkpoint_list", Title: "List checkpoints", Toolset: setup.State, Extra: true, ReadOnly: true,
			Idempotent: true,
			Description: "List the saved checkpoints with their sandboxes and times. sandbox_launch continues from " +
				"one.",
		}, listCheckpoints),
		Define(Tool{
			Name: "checkpoint_remove", Title: "Remove a checkpoint", Toolset: setup.State, Extra: true, Destructive: true,
			Idempotent: true,
			Description: "Remove a checkpoint, which cannot be undone. Sandboxes that were launched from it keep " +
				"running.",
		}, removeCheckpoint),
	}
}

func fork(ctx context.Context, c *Call, in forkIn) (SandboxInfo, error) {
	source, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return SandboxInfo{}, err
	}
	c.adopt(source)
	keep := in.Keep || c.Host.Options.OnDisconnect == setup.Detach
	forked, err := c.Service.Sandboxes.Fork(ctx, source.Ref(), service.ForkOptions{
		Name: in.Name, Bound: !keep && c.Host.Options.OnDisconnect == setup.Terminate, Renewed: !keep,
	})
	if err != nil {
		return SandboxInfo{}, err
	}
	c.Host.launched.add(forked.Ref(), c.Identity.Label())
	if err := c.Host.Secrets.know(ctx, c.Service, forked); err != nil { // it has its source's
		return InfoOf(forked), err
	}
	if !keep {
		c.Keep(ctx, forked)
	}
	return InfoOf(forked), nil
}

func checkpoint(ctx context.Context, c *Call, in checkpointIn) (checkpointInfo, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return checkpointInfo{}, err
	}
	made, err := c.Service.Sandboxes.Checkpoint(ctx, sb.Ref(), in.Name)
	return checkpointOf(made), err
}

func listCheckpoints(ctx context.Context, c *Call, _ NoneIn) (checkpointsOut, error) {
	out := checkpointsOut{Checkpoints: []checkpointInfo{}}
	found, err := c.Service.Stores.Checkpoints(ctx, "")
	for _, checkpoint := range found.Items {
		out.Checkpoints = append(out.Checkpoints, checkpointOf(checkpoint))
	}
	out.Failures = failuresOf(found.Failures)
	return out, err
}

func removeCheckpoint(ctx context.Context, c *Call, in checkpointNameIn) (removedOut, error) {
	return removedOut{in.Name}, c.Service.Stores.RemoveCheckpoint(ctx, "", in.Name)
}

func failuresOf(failures []core.ProviderFailure) []string {
	var lines []string
	for _, failed := range failures {
		lines = append(lines, failed.Provider+": "+failed.Error)
	}
	return lines
}
