package compat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

type containerIn struct {
	Image      string `json:"image" jsonschema:"image to start from, such as python:3.12"`
	Persistent bool   `json:"persistent,omitempty" jsonschema:"it stays when this client is gone"`
}

type containerOut struct {
	ContainerID string `json:"container_id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	Usage       string `json:"usage,omitempty" jsonschema:"how a person uses it without an assistant"`
}

func (o containerOut) Text() string {
	text := "container " + o.ContainerID + " (" + o.Name + ") is " + o.Status
	if o.Usage != "" {
		text += "\n" + o.Usage
	}
	return text
}

type containerFileIn struct {
	ContainerID string `json:"container_id"`
	Filename    string `json:"filename" jsonschema:"path in the container; missing directories are created"`
	Content     string `json:"content"`
}

type containerExecIn struct {
	ContainerID string `json:"container_id"`
	Command     string `json:"command" jsonschema:"text that a shell runs"`
}

type containerSaveIn struct {
	ContainerID string `json:"container_id"`
	Name        string `json:"name" jsonschema:"name of the image to make, such as my-env:v1"`
}

type containerIDIn struct {
	ContainerID string `json:"container_id"`
}

type containerExitIn struct {
	ContainerID string `json:"container_id"`
	Force       bool   `json:"force,omitempty" jsonschema:"a sandbox always ends at once"`
}

func dockerSandboxTools() []tools.Tool {
	return []tools.Tool{
		tools.Define(
			tools.Tool{
				Name: "create_container_environment", Title: "Create a container", OpenWorld: true,
				Description: "Create an isolated environment from an image and return its container id.",
			},
			createContainer,
		),
		tools.Define(tools.Tool{
			Name: "create_file_in_container", Title: "Create a file", Destructive: true, Idempotent: true,
			Description: "Create a file in a container, or replace its content.",
		}, func(ctx context.Context, c *tools.Call, in containerFileIn) (tools.WriteOut, error) {
			return tools.WriteFile(ctx, c, tools.WriteIn{Sandbox: in.ContainerID, Path: in.Filename, Content: in.Content})
		}),
		tools.Define(tools.Tool{
			Name: "execute_command_in_container", Title: "Execute a command", Destructive: true, OpenWorld: true,
			Description: "Run a shell command in a container and return its output and exit code.",
		}, func(ctx context.Context, c *tools.Call, in containerExecIn) (commandOut, error) {
			result, err := tools.RunExec(ctx, c, tools.ExecIn{Sandbox: in.ContainerID, Command: in.Command})
			return commandOf(result), err
		}),
		tools.Define(tools.Tool{
			Name: "save_container_state", Title: "Save a container", OpenWorld: true, Continues: true,
			Description: "Save a container's files as an image that other containers can start from.",
		}, func(ctx context.Context, c *tools.Call, in containerSaveIn) (containerOut, error) {
			saved, err := tools.Snapshot(ctx, c, tools.SnapshotIn{Sandbox: in.ContainerID, Name: in.Name})
			if errors.Is(err, core.KindUsage) {
				saved, err = tools.Snapshot(ctx, c, tools.SnapshotIn{Sandbox: in.ContainerID, Name: untagged(in.Name)})
			}
			return containerOut{
				ContainerID: in.ContainerID, Name: saved.Snapshot, Status: "saved",
				Usage: "create a container with image " + in.Name + " to start from it",
			}, err
		}),
		tools.Define(tools.Tool{
			Name: "export_dockerfile", Title: "Export a Dockerfile", ReadOnly: true, Idempotent: true,
			Description: "Write a Dockerfile that repeats the commands that succeeded in a container, from its image.",
		}, func(ctx context.Context, c *tools.Call, in containerIDIn) (tools.DockerfileOut, error) {
			return tools.Dockerfile(ctx, c, tools.SandboxIn{Sandbox: in.ContainerID})
		}),
		tools.Define(tools.Tool{
			Name: "exit_container", Title: "Close a container", Destructive: true, Idempotent: true,
			Description: "Close a container and remove everything in it, when the work is done.",
		}, func(ctx context.Context, c *tools.Call, in containerExitIn) (modalDoneOut, error) {
			_, err := tools.Terminate(ctx, c, tools.TerminateIn{Sandbox: in.ContainerID})
			return modalDoneOut{err == nil, "closed " + in.ContainerID}, err
		}),
	}
}

// untagged converts an image name to a snapshot name, for providers without images: "my-env:v1" becomes "my-env-v1".
func untagged(image string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(image) }

// startingFrom returns the spec for an image name. A name from save_container_state selects a snapshot.
func startingFrom(ctx context.Context, c *tools.Call, image string) core.Spec {
	kept, err := c.Service.Stores.Snapshots(ctx, "")
	if err != nil { // no provider keeps snapshots, or the caller may not list them
		return core.Spec{Image: image}
	}
	for _, snapshot := range kept.Items {
		if slices.Contains([]string{image, untagged(image)}, snapshot.ID) || snapshot.Name == image {
			return core.Spec{Snapshot: snapshot.ID, Provider: snapshot.Provider}
		}
	}
	return core.Spec{Image: image}
}

func createContainer(ctx context.Context, c *tools.Call, in containerIn) (containerOut, error) {
	sb, err := c.Launch(ctx, startingFrom(ctx, c, in.Image), in.Persistent)
	if err != nil {
		return containerOut{}, err
	}
	out := containerOut{ContainerID: sb.ID, Name: sb.Name, Status: string(sb.State)}
	if in.Persistent {
		out.Usage = "open a shell in it with: sb shell " + sb.Name + "\nremove it with: sb terminate " + sb.Name
	}
	return out, nil
}
