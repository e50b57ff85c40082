package mcp

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
)

// prompt is a task that a user can start from a menu.
type prompt struct {
	mcp.Prompt
	text func(arguments map[string]string) string
}

func prompts() []prompt {
	argument := func(name, description string, required bool) mcp.PromptArgument {
		return mcp.PromptArgument{Name: name, Description: description, Required: required}
	}
	return []prompt{
		{mcp.Prompt{
			Name: "run_untrusted_code", Title: "Run untrusted code",
			Description: "Look at code or a repository of unknown origin in a sandbox without a network",
			Arguments: []mcp.PromptArgument{
				argument("source", "path of a file or directory on this machine, or the code itself", true),
			},
		}, func(a map[string]string) string {
			return fmt.Sprintf("Examine and run this untrusted code: %s\n\n"+
				"Launch a sandbox with network none. Copy the code in with push (or file_write), read it before you run it, then "+
				"run it with a time limit of 60 s. "+
				"Never run any of it outside the sandbox. Report what it does, what it reads and writes, and anything that looks "+
				"harmful. Terminate the sandbox at the end.", a["source"])
		}},
		{mcp.Prompt{
			Name: "debug_failing_test", Title: "Debug a failing test",
			Description: "Reproduce a failing test in a sandbox, find the cause and propose a fix",
			Arguments: []mcp.PromptArgument{
				argument("project", "directory of the project on this machine", true),
				argument("test", "command that runs the failing test", true),
				argument("sandbox", "sandbox to use (default: a new one)", false),
			},
		}, func(a map[string]string) string {
			where := "Launch a sandbox"
			if a["sandbox"] != "" {
				where = "Use sandbox " + a["sandbox"]
			}
			return fmt.Sprintf("Find out why this test fails: %s\n\n%s, push %s to /app, install what it needs, and reproduce "+
				"the failure there first. "+
				"Then find the cause: read the code, add output, run smaller parts. Change only the copy in the sandbox until "+
				"the test passes, run the whole test suite once, "+
				"and show the change as a diff with one paragraph on the cause. Leave the files on this machine alone unless I "+
				"ask.", a["test"], where, a["project"])
		}},
		{mcp.Prompt{
			Name: "train_on_gpu", Title: "Train on a GPU",
			Description: "Run a training script on a cloud GPU, watch it and fetch the results",
			Arguments: []mcp.PromptArgument{
				argument("script", "path of the training script or project on this machine", true),
				argument("gpu", "GPU type, such as T4, A100-40GB or H100", true),
				argument("packages", "Python packages it needs", false),
			},
		}, func(a map[string]string) string {
			packages := a["packages"]
			if packages == "" {
				packages = "of its imports or requirements file"
			}
			return fmt.Sprintf("Train with %s on a GPU of type %s.\n\nLaunch a sandbox with that GPU, the Python packages %s, "+
				"and a timeout that bounds the cost; tell me the timeout first. "+
				"Push the project, check that the GPU is seen (nvidia-smi), and start the training in the background. Follow it "+
				"with exec_wait: report the loss from time to time, "+
				"and stop early when it diverges. Pull the results when it is done, and terminate the sandbox at once: it costs "+
				"money while it runs.", a["script"], a["gpu"], packages)
		}},
	}
}

func (s *Server) addPrompts(protocol *server.MCPServer) {
	for _, p := range prompts() {
		protocol.AddPrompt(p.Prompt, func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			for _, argument := range p.Arguments {
				if argument.Required && request.Params.Arguments[argument.Name] == "" {
					return nil, core.Errorf(
						core.KindUsage, "prompt", "", "the argument %q is missing: %s", argument.Name, argument.Description,
					)
				}
			}
			return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{
				mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(p.text(request.Params.Arguments))),
			}), nil
		})
	}
}
