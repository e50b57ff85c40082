package compat

import (
	"context"
	"io/fs"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// resultsDir is the directory in which mcp-sandbox runs code. Files created there are returned as links.
const resultsDir = "/app/results"

type createSandboxIn struct {
	Name string `json:"name,omitempty" jsonschema:"name to find it by"`
}

type pySandboxIn struct {
	SandboxID string `json:"sandbox_id"`
	Code      string `json:"code" jsonschema:"Python code; save figures and tables to files, which come back as links"`
}

type pyOut struct {
	commandOut
	FileLinks []string `json:"file_links" jsonschema:"links to the files that the code made"`
}

func (o pyOut) Text() string {
	lines := []string{o.commandOut.Text()}
	for _, link := range o.FileLinks {
		lines = append(lines, "file: "+link)
	}
	return strings.Join(lines, "\n")
}

type pyPackageIn struct {
	SandboxID   string `json:"sandbox_id"`
	PackageName string `json:"package_name" jsonschema:"such as pandas or pandas==2.2.0"`
}

type pyInstallOut struct {
	Package string `json:"package_name"`
	Status  string `json:"status" jsonschema:"installing, installed or failed"`
	Details string `json:"details,omitempty"`
}

func (o pyInstallOut) Text() string { return o.Package + ": " + o.Status + "\n" + o.Details }

type pyCommandIn struct {
	SandboxID string `json:"sandbox_id"`
	Command   string `json:"command" jsonschema:"text that a shell runs"`
}

type uploadIn struct {
	SandboxID string `json:"sandbox_id"`
	LocalPath string `json:"local_file_path" jsonschema:"file on the user's machine"`
	DestPath  string `json:"dest_path,omitempty" jsonschema:"directory in the sandbox" default:"/app/results"`
}

type codeOnlyIn struct {
	Code string `json:"code" jsonschema:"the whole program; print what you want to see"`
}

func mcpSandboxTools() []tools.Tool {
	return []tools.Tool{
		tools.Define(tools.Tool{
			Name: "create_sandbox", Title: "Create a sandbox", OpenWorld: true,
			Description: "Create a new Python sandbox and return its id for the other tools.",
		}, func(ctx context.Context, c *tools.Call, in createSandboxIn) (modalSandboxOut, error) {
			info, err := tools.Launch(ctx, c, tools.LaunchIn{Name: in.Name})
			if err == nil {
				err = c.Service.Files.Mkdir(ctx, info.Provider+"/"+info.ID, resultsDir, true)
			}
			return modalSandbox(info), err
		}),
		tools.Define(tools.Tool{
			Name: "list_sandboxes", Title: "List sandboxes", ReadOnly: true, Idempotent: true,
			Description: "List the existing sandboxes, to reuse one instead of creating another.",
		}, func(ctx context.Context, c *tools.Call, _ tools.NoneIn) (modalListOut, error) {
			found, err := tools.List(ctx, c, tools.ListIn{})
			out := modalListOut{Sandboxes: []modalSandboxOut{}}
			for _, info := range found.Sandboxes {
				out.Sandboxes = append(out.Sandboxes, modalSandbox(info))
			}
			return out, err
		}),
		tools.Define(
			tools.Tool{
				Name: "execute_python_code", Title: "Execute Python code", Destructive: true, OpenWorld: true,
				Description: "Run Python code in a sandbox and return its output, and links to the files that it made in its " +
					"working directory.",
			},
			runPython,
		),
		tools.Define(tools.Tool{
			Name: "install_package_in_sandbox", Title: "Install a package", OpenWorld: true, Idempotent: true,
			Description: "Start to install a Python package in a sandbox. check_package_installation_status reports the result.",
		}, func(ctx context.Context, c *tools.Call, in pyPackageIn) (pyInstallOut, error) {
			soon := 2
			result, err := tools.Install(
				ctx, c, tools.InstallIn{Sandbox: in.SandboxID, Packages: []string{in.PackageName}, Wait: &soon},
			)
			return installed(in.PackageName, result), err
		}),
		tools.Define(
			tools.Tool{
				Name: "check_package_installation_status", Title: "Is a package installed?", ReadOnly: true, Idempotent: true,
				Description: "Report whether a package is installed in a sandbox, or still being installed.",
			},
			checkPackage,
		),
		tools.Define(tools.Tool{
			Name: "execute_terminal_command", Title: "Execute a command", Destructive: true, OpenWorld: true,
			Description: "Run a terminal command in a sandbox and return stdout, stderr and exit_code.",
		}, func(ctx context.Context, c *tools.Call, in pyCommandIn) (commandOut, error) {
			result, err := tools.RunExec(ctx, c, tools.ExecIn{Sandbox: in.SandboxID, Command: in.Command})
			return commandOf(result), err
		}),
		tools.Define(tools.Tool{
			Name: "upload_file_to_sandbox", Title: "Upload a file", Destructive: true, Idempotent: true,
			Continues:   true,
			Description: "Upload a file of the user's machine to a sandbox.",
		}, func(ctx context.Context, c *tools.Call, in uploadIn) (tools.TransferOut, error) {
			sb, err := c.Resolve(ctx, in.SandboxID)
			if err != nil {
				return tools.TransferOut{}, err
			}
			dest := in.DestPath
			if dest == "" {
				dest = resultsDir
			}
			if err := c.Service.Files.Mkdir(ctx, sb.Ref(), tools.Absolute(sb, dest), true); err != nil {
				return tools.TransferOut{}, err
			}
			return tools.Push(ctx, c, tools.PushIn{Sandbox: sb.Ref(), Local: in.LocalPath, Path: dest})
		}),
	}
}

// runPython runs code in the results directory and links to the new files there.
func runPython(ctx context.Context, c *tools.Call, in pySandboxIn) (pyOut, error) {
	sb, err := c.Use(ctx, in.SandboxID)
	if err != nil {
		return pyOut{}, err
	}
	ref := sb.Ref()
	if err := c.Service.Files.Mkdir(ctx, ref, resultsDir, true); err != nil {
		return pyOut{}, err
	}
	before, err := resultsIn(ctx, c, ref)
	if err != nil {
		return pyOut{}, err
	}
	if len(in.Code) > tools.MaxCode {
		return pyOut{}, core.Errorf(
			core.KindUsage, "execute_python_code", "", "the code is longer than %d bytes", tools.MaxCode,
		)
	}
	result, err := c.Execute(ctx, sb, tools.Execution{
		Spec: core.ExecSpec{Command: []string{"python3", "-u", "-c", in.Code}, Workdir: resultsDir},
		Wait: c.Host.Options.SoftDeadline, Budget: c.Budget(0),
	})
	if err != nil {
		return pyOut{}, err
	}
	out := pyOut{commandOut: commandOf(result), FileLinks: []string{}}
	after, err := resultsIn(ctx, c, ref)
	if err != nil {
		return out, err
	}
	for _, name := range after.names {
		if before.seen[name] == after.seen[name] {
			continue
		}
		link := tools.FileURI(sb.ID, name)
		if made, err := c.Link(sb, name, false, tools.MaxLinkTime); err == nil {
			link = made.URL
		}
		out.FileLinks = append(out.FileLinks, link)
	}
	return out, nil
}

// results are the files of the results directory at one time.
type results struct {
	names []string
	seen  map[string]resultState
}

type resultState struct {
	size     int64
	modified time.Time
	mode     fs.FileMode
}

// maxResults bounds the files of the results directory and below that are looked at.
const maxResults = 1000

func resultsIn(ctx context.Context, c *tools.Call, ref string) (results, error) {
	r := results{seen: map[string]resultState{}}
	_, err := transfer.Find(ctx, c.Service.Files, transfer.Tree{Sandbox: ref, Path: resultsDir, All: true},
		func(info core.FileInfo) bool {
			if info.Mode.IsRegular() {
				r.names = append(r.names, info.Path)
				r.seen[info.Path] = resultState{info.Size, info.ModTime, info.Mode}
			}
			return len(r.names) < maxResults
		})
	return r, err
}

func installed(name string, result tools.ExecResult) pyInstallOut {
	out := pyInstallOut{Package: name, Status: "failed", Details: lastLines(result.Stdout + result.Stderr)}
	switch {
	case result.Running:
		out.Status, out.Details = "installing", ""
	case result.ExitCode != nil && *result.ExitCode == 0:
		out.Status, out.Details = "installed", ""
	}
	return out
}

// checkPackage looks for a running installation, then queries pip.
func checkPackage(ctx context.Context, c *tools.Call, in pyPackageIn) (pyInstallOut, error) {
	sb, err := c.Resolve(ctx, in.SandboxID)
	if err != nil {
		return pyInstallOut{}, err
	}
	execs, err := c.Service.Execs.List(ctx, sb.Ref())
	if err != nil {
		return pyInstallOut{}, err
	}
	var last *core.Exec
	for _, e := range execs {
		if n := len(e.Command); n > 3 && e.Command[n-1] == in.PackageName && e.Command[3] == "install" {
			last = &e
		}
	}
	if last != nil && last.Running() {
		return pyInstallOut{
			Package: in.PackageName, Status: "installing", Details: "since " + last.Started.UTC().Format(time.RFC3339),
		}, nil
	}
	status, err := tools.PackageStatus(ctx, c, tools.StatusIn{Sandbox: in.SandboxID, Package: requirement(in.PackageName)})
	out := pyInstallOut{Package: in.PackageName, Status: "failed", Details: status.Details}
	if status.Installed {
		out.Status = "installed"
	}
	if err == nil && !status.Installed && last != nil {
		output, err := c.Output(ctx, sb, last.ID)
		if err != nil {
			return out, err
		}
		out.Details = lastLines(output.Stdout + output.Stderr)
	}
	return out, err
}

// lastLines returns the end of a package manager's output, which has its reasons.
func lastLines(output string) string {
	const most = 15
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// requirement returns a package's name without the requested version.
func requirement(name string) string {
	for i, r := range name {
		switch r {
		case '=', '<', '>', '!', '~', '[', ' ', ';':
			return name[:i]
		}
	}
	return name
}

func codeSandboxTools() []tools.Tool {
	run := func(language string) func(context.Context, *tools.Call, codeOnlyIn) (commandOut, error) {
		return func(ctx context.Context, c *tools.Call, in codeOnlyIn) (commandOut, error) {
			result, err := tools.RunCode(ctx, c, tools.CodeIn{Language: language, Code: in.Code})
			return commandOf(result), err
		}
	}
	return []tools.Tool{
		tools.Define(
			tools.Tool{
				Name: "run_python_code", Title: "Run Python code", Destructive: true, OpenWorld: true,
				Description: "Execute a snippet of Python code in a sandbox of its own and return its output.",
			},
			run("python"),
		),
		tools.Define(
			tools.Tool{
				Name: "run_js_code", Title: "Run JavaScript code", Destructive: true, OpenWorld: true,
				Description: "Execute a snippet of JavaScript (Node.js) code in a sandbox of its own and return its output.",
			},
			run("javascript"),
		),
	}
}
