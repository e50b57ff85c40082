package tools

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type storeIn struct {
	Provider string `json:"provider,omitempty" jsonschema:"default: all providers"`
}

type keptIn struct {
	Name     string `json:"name"`
	Provider string `json:"provider,omitempty" jsonschema:"needed if several providers store volumes"`
}

type kept struct {
	Name     string     `json:"name"`
	Provider string     `json:"provider"`
	Size     core.Bytes `json:"size_bytes,omitempty"`
	Keys     []string   `json:"variables,omitempty" jsonschema:"names of a secret's variables, never the values"`
}

type keptOut struct {
	Items    []kept   `json:"items"`
	Failures []string `json:"failures,omitempty" jsonschema:"providers that did not answer, and why"`
}

func (o keptOut) Text() string {
	if len(o.Items)+len(o.Failures) == 0 {
		return "none"
	}
	var lines []string
	for _, item := range o.Items {
		line := item.Name + " at " + item.Provider
		if item.Size > 0 {
			line += ", " + item.Size.String()
		}
		lines = append(lines, strings.TrimSpace(line+" "+strings.Join(item.Keys, ", ")))
	}
	return list(slices.Concat(o.Failures, lines))
}

func storeTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "volume_list", Title: "List volumes", Toolset: setup.Stores, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the volumes that providers store. sandbox_launch mounts them by name.",
		}, listVolumes),
		Define(Tool{
			Name: "volume_create", Title: "Create a volume", Toolset: setup.Stores, Extra: true,
			Description: "Create an empty volume for files that outlive a sandbox. sandbox_launch mounts it by name.",
		}, createVolume),
		Define(Tool{
			Name: "volume_remove", Title: "Remove a volume", Toolset: setup.Stores, Extra: true, Destructive: true,
			Description: "Remove a volume and its files, which cannot be undone. A volume in use is not removed.",
		}, removeVolume),
		Define(Tool{
			Name: "secret_list", Title: "List secrets", Toolset: setup.Stores, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the names of the secrets that providers store, never their values. sandbox_launch " +
				"takes them as secret_names.",
		}, listSecrets),
	}
}

func listVolumes(ctx context.Context, c *Call, in storeIn) (keptOut, error) {
	out := keptOut{Items: []kept{}}
	found, err := c.Service.Stores.Volumes(ctx, in.Provider)
	for _, v := range found.Items {
		out.Items = append(out.Items, kept{Name: v.Name, Provider: v.Provider, Size: v.Size})
	}
	out.Failures = failuresOf(found.Failures)
	return out, err
}

func createVolume(ctx context.Context, c *Call, in keptIn) (kept, error) {
	made, err := c.Service.Stores.CreateVolume(ctx, in.Provider, in.Name, core.VolumeOptions{})
	return kept{Name: made.Name, Provider: made.Provider, Size: made.Size}, err
}

func removeVolume(ctx context.Context, c *Call, in keptIn) (removedOut, error) {
	if err := c.confirm(ctx, "volume_remove", "Remove volume "+in.Name+" and its files?"); err != nil {
		return removedOut{}, err
	}
	return removedOut{in.Name}, c.Service.Stores.RemoveVolume(ctx, in.Provider, in.Name)
}

func listSecrets(ctx context.Context, c *Call, in storeIn) (keptOut, error) {
	out := keptOut{Items: []kept{}}
	found, err := c.Service.Stores.Secrets(ctx, in.Provider)
	for _, s := range found.Items {
		out.Items = append(out.Items, kept{Name: s.Name, Provider: s.Provider, Keys: s.Keys})
	}
	out.Failures = failuresOf(found.Failures)
	return out, err
}
