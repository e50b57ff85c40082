package rest

import (
	"cmp"
	"context"
	"net/http"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// operation is a tool with a method and a path.
type operation struct {
	// path follows prefix. Its wildcards are arguments of the tool.
	method, path string
	// tool has the name of the operation, its texts and its schemas. A caller who may only read needs its ReadOnly.
	tool tools.Tool
	// gates name the tools that enable the operation if the server serves one of them; nil is the tool itself.
	gates []string
	// open means that the operation needs none of them.
	open bool
	// omit has the tool's arguments that the operation does not take.
	omit []string
	// query means that the arguments of a POST are in the query, and not in a body.
	query bool
	// status is that of success; 0 is 200. With 204 the response has no body.
	status int

	// handle serves the operation itself, instead of the tool's function. With an error it has written nothing.
	handle func(a *API, op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error
	// produces has the media types of the responses that handle writes, and sends that of the request's body.
	produces []string
	sends    string
}

// success returns the status of a success.
func (op operation) success() int { return cmp.Or(op.status, http.StatusOK) }

// The media types of handlers.
const (
	jsonLines   = "application/x-ndjson"
	eventStream = "text/event-stream"
	octets      = "application/octet-stream"
)

// sandboxPath is the path of one sandbox.
const sandboxPath = "/sandboxes/{sandbox}"

// operations lists the routes.
func operations() []operation {
	catalogue := map[string]tools.Tool{}
	for _, tool := range tools.Catalogue() {
		catalogue[tool.Name] = tool
	}
	// on is a tool of assistants at a path.
	on := func(method, path, name string) operation {
		return operation{method: method, path: path, tool: catalogue[name]}
	}
	gone := func(op operation) operation {
		op.status = http.StatusNoContent
		return op
	}
	without := func(op operation, omit ...string) operation {
		op.omit = omit
		return op
	}
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return append([]operation{
		launch(catalogue["sandbox_launch"]),
		without(on(get, "/sandboxes", "sandbox_list"), "sandbox"),
		inspect(),
		gone(without(on(del, sandboxPath, "sandbox_terminate"), "all")),
		on(post, sandboxPath+"/stop", "sandbox_stop"),
		on(post, sandboxPath+"/start", "sandbox_start"),
		on(post, sandboxPath+"/pause", "sandbox_pause"),
		on(post, sandboxPath+"/resume", "sandbox_resume"),
		on(post, sandboxPath+"/timeout", "sandbox_timeout"),
		on(get, sandboxPath+"/stats", "sandbox_stats"),
		on(post, sandboxPath+"/fork", "sandbox_fork"),
		on(post, sandboxPath+"/checkpoint", "checkpoint"),
		on(post, sandboxPath+"/snapshot", "snapshot"),
		on(get, sandboxPath+"/dockerfile", "dockerfile"),

		on(post, sandboxPath+"/execs", "exec"),
		on(get, sandboxPath+"/execs", "exec_list"),
		look(catalogue["exec_wait"]),
		input(catalogue["exec_wait"]),
		on(post, sandboxPath+"/execs/{exec_id}/kill", "exec_kill"),
		logsOperation(),

		download(), upload(),
		on(del, sandboxPath+"/files", "file_remove"),
		on(post, sandboxPath+"/files/edit", "file_edit"),
		on(get, sandboxPath+"/directory", "file_list"),
		on(post, sandboxPath+"/directory", "file_mkdir"),
		on(post, sandboxPath+"/packages", "packages_install"),
		on(get, sandboxPath+"/packages/{package}", "packages_status"),

		on(get, sandboxPath+"/ports", "ports"),
		on(post, sandboxPath+"/connect-token", "connect_token"),
		on(post, sandboxPath+"/network", "network_set"),
		on(get, sandboxPath+"/denied-connections", "denied_connections"),

		eventsOperation(),
		on(get, "/costs", "sandbox_cost"),
		on(get, "/checkpoints", "checkpoint_list"),
		gone(on(del, "/checkpoints/{name}", "checkpoint_remove")),
		on(get, "/volumes", "volume_list"),
		on(post, "/volumes", "volume_create"),
		gone(on(del, "/volumes/{name}", "volume_remove")),
		on(get, "/secrets", "secret_list"),
	}, sessionOperations()...)
}

// inspect describes one sandbox.
func inspect() operation {
	return operation{
		method: http.MethodGet, path: sandboxPath, gates: []string{"sandbox_list"},
		tool: tools.Define(tools.Tool{
			Name: "sandbox_inspect", Title: "Inspect a sandbox", ReadOnly: true,
			Description: "Describe a sandbox: its state, image, ports and when it ends.",
		}, func(ctx context.Context, c *tools.Call, in tools.SandboxIn) (tools.SandboxInfo, error) {
			found, err := tools.List(ctx, c, tools.ListIn{Sandbox: in.Sandbox})
			if err != nil {
				return tools.SandboxInfo{}, err
			}
			if in.Sandbox == "" || len(found.Sandboxes) != 1 {
				return tools.SandboxInfo{}, core.Errorf(core.KindNotFound, "inspect", in.Sandbox, "there is no such sandbox")
			}
			return found.Sandboxes[0], nil
		}),
	}
}

// look reads the output and the state of a command.
func look(wait tools.Tool) operation {
	wait.Description = "Read the output and the state of a command. It waits for the end of a running command."
	wait.ReadOnly = true
	return operation{
		method: http.MethodGet, path: sandboxPath + "/execs/{exec_id}", tool: wait, gates: []string{"exec_wait", "exec_list"},
		omit: []string{"stdin", "close_stdin"},
	}
}

// input sends input to a command.
func input(wait tools.Tool) operation {
	wait.Name, wait.Title = "exec_input", "Send input to a command"
	wait.Description = "Send input to a command that was started with keep_stdin_open, or close its stdin."
	return operation{
		method: http.MethodPost, path: sandboxPath + "/execs/{exec_id}/input", tool: wait, gates: []string{"exec_wait"},
	}
}
