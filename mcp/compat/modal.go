package compat

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

type modalLaunchIn struct {
	App        string            `json:"app_name" jsonschema:"app namespace that groups sandboxes"`
	Python     string            `json:"python_version,omitempty" jsonschema:"Python version to install; left out: the image's"`
	Pip        []string          `json:"pip_packages,omitempty"`
	Apt        []string          `json:"apt_packages,omitempty"`
	Timeout    int               `json:"timeout_seconds,omitempty" jsonschema:"how long it lives" default:"600"`
	CPU        float64           `json:"cpu,omitempty" jsonschema:"cores" default:"2"`
	Memory     int               `json:"memory,omitempty" jsonschema:"MB" default:"4096"`
	Secrets    map[string]string `json:"secrets,omitempty" jsonschema:"environment variables that stay out of logs and output"`
	Predefined []string          `json:"inject_predefined_secrets,omitempty" jsonschema:"names of secrets that the provider keeps"`
	Volumes    map[string]string `json:"volumes,omitempty" jsonschema:"path inside: volume name"`
	Workdir    string            `json:"workdir,omitempty" default:"/"`
	GPUType    string            `json:"gpu_type,omitempty" jsonschema:"T4, L4, A10G, A100-40GB, A100-80GB, L40S, H100, H200, B200"`
	GPUCount   int               `json:"gpu_count,omitempty"`
}

type modalSandboxOut struct {
	SandboxID string `json:"sandbox_id"`
	App       string `json:"app_name"`
	Status    string `json:"status"`
	tools.SandboxInfo
}

type modalListIn struct {
	App string `json:"app_name" jsonschema:"app namespace"`
}

type modalListOut struct {
	Sandboxes []modalSandboxOut `json:"sandboxes"`
}

func (o modalListOut) Text() string {
	list := tools.ListOut{}
	for _, sb := range o.Sandboxes {
		list.Sandboxes = append(list.Sandboxes, sb.SandboxInfo)
	}
	return list.Text()
}

type modalIDIn struct {
	SandboxID string `json:"sandbox_id"`
}

type modalDoneOut struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

func (o modalDoneOut) Text() string { return o.Message }

type modalExecIn struct {
	SandboxID string   `json:"sandbox_id"`
	Command   []string `json:"command" jsonschema:"program and arguments"`
	Timeout   int      `json:"timeout_seconds,omitempty" jsonschema:"end the command after that long" default:"30"`
}

type modalExecOut struct {
	commandOut
	ReturnCode *int `json:"returncode,omitempty"`
}

type modalPushIn struct {
	SandboxID   string `json:"sandbox_id"`
	LocalPath   string `json:"local_path" jsonschema:"file or directory on the user's machine"`
	SandboxPath string `json:"sandbox_path"`
	ReadMode    string `json:"read_file_mode,omitempty" jsonschema:"files are copied as bytes, whatever this says" default:"rb"`
	WriteMode   string `json:"writefile_mode,omitempty" jsonschema:"files are copied as bytes, whatever this says" default:"wb"`
}

type modalPullIn struct {
	SandboxID   string `json:"sandbox_id"`
	SandboxPath string `json:"sandbox_path"`
	LocalPath   string `json:"local_path" jsonschema:"destination on the user's machine"`
}

type modalPathIn struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path"`
}

type modalWriteIn struct {
	SandboxID   string `json:"sandbox_id"`
	SandboxPath string `json:"sandbox_path"`
	Content     string `json:"content"`
}

type modalMkdirIn struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path"`
	Parents   bool   `json:"parents,omitempty" jsonschema:"make missing parents, too"`
}

type modalRemoveIn struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`
}

// The lifetime, cores and memory that the system documents.
const (
	modalTimeout     = 600
	modalCPU         = 2.0
	modalMemory      = 4096
	modalExecTimeout = 30
)

func mcp4modalTools() []tools.Tool {
	return []tools.Tool{
		tools.Define(
			tools.Tool{
				Name: "launch_sandbox", Title: "Launch a sandbox", OpenWorld: true,
				Description: "Create a new isolated sandbox with Python version, packages, resources and GPU of your choice.",
			},
			modalLaunch,
		),
		tools.Define(tools.Tool{
			Name: "terminate_sandbox", Title: "Terminate a sandbox", Destructive: true, Idempotent: true,
			Description: "Stop a running sandbox and remove all its files.",
		}, func(ctx context.Context, c *tools.Call, in modalIDIn) (modalDoneOut, error) {
			_, err := tools.Terminate(ctx, c, tools.TerminateIn{Sandbox: in.SandboxID})
			return modalDoneOut{err == nil, "terminated " + in.SandboxID}, err
		}),
		tools.Define(tools.Tool{
			Name: "list_sandboxes", Title: "List sandboxes", ReadOnly: true, Idempotent: true,
			Description: "List all sandboxes within an app namespace.",
		}, func(ctx context.Context, c *tools.Call, in modalListIn) (modalListOut, error) {
			found, err := tools.List(ctx, c, tools.ListIn{App: in.App})
			out := modalListOut{Sandboxes: []modalSandboxOut{}}
			for _, info := range found.Sandboxes {
				out.Sandboxes = append(out.Sandboxes, modalSandbox(info))
			}
			return out, err
		}),
		tools.Define(
			tools.Tool{
				Name: "execute_command", Title: "Execute a command", Destructive: true, OpenWorld: true,
				Description: "Run a command in a sandbox and return stdout, stderr and the return code.",
			},
			modalExec,
		),
		tools.Define(tools.Tool{
			Name: "push_file_to_sandbox", Title: "Push a file", Destructive: true, Idempotent: true,
			Continues:   true,
			Description: "Upload a file or directory of the user's machine to a sandbox.",
		}, func(ctx context.Context, c *tools.Call, in modalPushIn) (tools.TransferOut, error) {
			return tools.Push(ctx, c, tools.PushIn{Sandbox: in.SandboxID, Local: in.LocalPath, Path: in.SandboxPath})
		}),
		tools.Define(tools.Tool{
			Name: "pull_file_from_sandbox", Title: "Pull a file", Destructive: true, Idempotent: true,
			Continues:   true,
			Description: "Download a file or directory of a sandbox to the user's machine. It replaces an existing file.",
		}, func(ctx context.Context, c *tools.Call, in modalPullIn) (tools.TransferOut, error) {
			return tools.Pull(
				ctx, c, tools.PullIn{Sandbox: in.SandboxID, Path: in.SandboxPath, Local: in.LocalPath, Replace: true},
			)
		}),
		tools.Define(tools.Tool{
			Name: "read_file_content_from_sandbox", Title: "Read a file", ReadOnly: true, Idempotent: true,
			Description: "Read the content of a file in a sandbox without downloading it.",
		}, func(ctx context.Context, c *tools.Call, in modalPathIn) (tools.ReadOut, error) {
			return tools.ReadFile(ctx, c, tools.ReadIn{Sandbox: in.SandboxID, Path: in.Path})
		}),
		tools.Define(tools.Tool{
			Name: "write_file_content_to_sandbox", Title: "Write a file", Destructive: true, Idempotent: true,
			Description: "Create a file in a sandbox, or replace its content.",
		}, func(ctx context.Context, c *tools.Call, in modalWriteIn) (tools.WriteOut, error) {
			return tools.WriteFile(ctx, c, tools.WriteIn{Sandbox: in.SandboxID, Path: in.SandboxPath, Content: in.Content})
		}),
		tools.Define(tools.Tool{
			Name: "list_directory", Title: "List a directory", ReadOnly: true, Idempotent: true,
			Description: "List a directory of a sandbox.",
		}, func(ctx context.Context, c *tools.Call, in modalPathIn) (tools.FilesOut, error) {
			return tools.ListFiles(ctx, c, tools.PathIn{Sandbox: in.SandboxID, Path: in.Path})
		}),
		tools.Define(
			tools.Tool{Name: "make_directory", Title: "Make a directory", Description: "Create a directory in a sandbox."},
			modalMkdir,
		),
		tools.Define(tools.Tool{
			Name: "remove_path", Title: "Remove a path", Destructive: true,
			Description: "Remove a file or directory of a sandbox.",
		}, func(ctx context.Context, c *tools.Call, in modalRemoveIn) (tools.PathOut, error) {
			return tools.RemoveFile(ctx, c, tools.RemoveIn{Sandbox: in.SandboxID, Path: in.Path, Recursive: in.Recursive})
		}),
	}
}

func modalSandbox(info tools.SandboxInfo) modalSandboxOut {
	return modalSandboxOut{SandboxID: info.ID, App: info.App, Status: info.State, SandboxInfo: info}
}

func modalLaunch(ctx context.Context, c *tools.Call, in modalLaunchIn) (modalSandboxOut, error) {
	if c.Host.Options.Policy.Template == "" { // a template sets these values
		in.Timeout, in.CPU, in.Memory = cmp.Or(in.Timeout, modalTimeout), cmp.Or(in.CPU, modalCPU), cmp.Or(
			in.Memory, modalMemory,
		)
	}
	ask := tools.LaunchIn{
		App: in.App, Python: in.Python, Pip: in.Pip, Apt: in.Apt, Timeout: in.Timeout, CPU: in.CPU, Secrets: in.Secrets,
		SecretRefs: in.Predefined, Volumes: in.Volumes, Workdir: in.Workdir,
	}
	if in.Memory > 0 {
		ask.Memory = fmt.Sprintf("%dMiB", in.Memory)
	}
	if in.GPUType != "" {
		ask.GPU = fmt.Sprintf("%s:%d", in.GPUType, max(in.GPUCount, 1))
	}
	info, err := tools.Launch(ctx, c, ask)
	return modalSandbox(info), err
}

func modalExec(ctx context.Context, c *tools.Call, in modalExecIn) (modalExecOut, error) {
	if len(in.Command) == 0 {
		return modalExecOut{}, core.Errorf(core.KindUsage, "exec", "", "the command is empty")
	}
	// The system waits for the command's end. The wait exceeds the command's time limit by a second, up to the soft
	// deadline.
	wait := min(cmp.Or(in.Timeout, modalExecTimeout)+1, int(c.Host.Options.SoftDeadline/time.Second))
	result, err := tools.RunExec(
		ctx, c,
		tools.ExecIn{
			Sandbox: in.SandboxID, Argv: anyPython(in.Command), Timeout: cmp.Or(in.Timeout, modalExecTimeout), Wait: &wait,
		},
	)
	out := commandOf(result)
	return modalExecOut{out, out.ExitCode}, err
}

// anyPython makes a command that starts "python" or "pip" start it where it has only the names "python3" and "pip3", as
// on this machine's own image.
func anyPython(command []string) []string {
	if command[0] != "python" && command[0] != "pip" {
		return command
	}
	const choose = `if command -v "$0" >/dev/null; then exec "$0" "$@"; else exec "${0}3" "$@"; fi`
	return append([]string{"/bin/sh", "-c", choose}, command...)
}

func modalMkdir(ctx context.Context, c *tools.Call, in modalMkdirIn) (tools.PathOut, error) {
	sb, err := c.Use(ctx, in.SandboxID)
	if err != nil {
		return tools.PathOut{}, err
	}
	name := tools.Absolute(sb, in.Path)
	return tools.PathOut{Path: name, Done: "made"}, c.Service.Files.Mkdir(ctx, sb.Ref(), name, in.Parents)
}
