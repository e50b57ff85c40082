package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// programBench is a server of another system's tools over sandboxes with additional programs.
func programBench(t *testing.T, opts setup.Options, programs map[string]fake.Program) *bench {
	t.Helper()
	provider := fake.New(fake.Options{
		Also: []core.Capability{core.CapCPU, core.CapImages}, Programs: programs,
	})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{provider.Factory()}})
	return benchOver(t, provider, svc, opts)
}

// A command of another system that outlasts its call names the tool that returns the rest.
func TestCompatCommandsOutlastTheirCall(t *testing.T) {
	for system, test := range map[string]struct {
		launch string
		with   args
		exec   string
		id     string
	}{
		setup.MCP4Modal: {"launch_sandbox", args{"app_name": "a"}, "execute_command", "sandbox_id"},
		setup.DockerSandboxServer: {
			"create_container_environment", args{"image": "x"}, "execute_command_in_container", "container_id",
		},
		setup.MCPSandbox: {"create_sandbox", args{}, "execute_terminal_command", "sandbox_id"},
	} {
		t.Run(system, func(t *testing.T) {
			a := compatBench(t, setup.Options{Compat: system, SoftDeadline: time.Second})
			sb := a.Call(test.launch, test.with)[test.id]
			command := any("sleep 2; echo late")
			if system == setup.MCP4Modal {
				command = []string{"sh", "-c", "sleep 2; echo late"}
			}
			got := a.Call(test.exec, args{test.id: sb, "command": command})
			note, _ := got["note"].(string)
			if got["running"] != true || got["exec_id"] == nil || !strings.Contains(note, "exec_wait with sandbox") {
				t.Fatalf("after the soft deadline: %v", got)
			}
			for deadline := time.Now().Add(patience); got["running"] == true && time.Now().Before(deadline); {
				got = a.Call("exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"]})
			}
			if got["stdout"] != "late\n" || got["exit_code"] != 0.0 {
				t.Errorf("the rest: %v", got)
			}
		})
	}
}

// The sandbox of a single run that outlasts its call ends once a client has the result.
func TestSingleRunOutlastsItsCall(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	c := b.host.Call(t.Context(), mcp.CallToolRequest{})
	out, err := c.Code(t.Context(), "", tools.Execution{
		Spec: core.ExecSpec{Command: []string{"/bin/sh", "-c", "sleep 1; echo done"}}, Wait: 10 * time.Millisecond,
		Budget: 1000,
	}, core.Spec{})
	if err != nil || !out.Running || !strings.Contains(out.Note, "which ends after it") {
		t.Fatalf("the call: %+v, %v", out, err)
	}
	got := a.Call("exec_wait", args{"sandbox": out.Sandbox, "exec_id": out.Exec})
	if got["stdout"] != "done\n" || got["exit_code"] != 0.0 {
		t.Errorf("the rest: %v", got)
	}
	eventually(t, "the sandbox ends", func() bool {
		listing, err := b.service.Sandboxes.List(t.Context(), core.ListFilter{All: true})
		return err == nil && len(listing.Sandboxes) == 0
	})
}

// Relative paths mean the same for all tools of mcp4modal, and missing directories of a target are created.
func TestCompatMCP4ModalPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data.json"), "{}")
	a := compatBench(t, setup.Options{Compat: setup.MCP4Modal, AllowPaths: []string{dir}})
	sb := a.Call("launch_sandbox", args{"app_name": "a"})["sandbox_id"]
	a.Call("push_file_to_sandbox", args{
		"sandbox_id": sb, "local_path": "./data.json", "sandbox_path": "./new/dir/data.json",
	})
	for _, name := range []string{"./new/dir/data.json", "/new/dir/data.json"} {
		got := a.Call("execute_command", args{"sandbox_id": sb, "command": []string{"cat", name}})
		if got["stdout"] != "{}" {
			t.Errorf("%s: %v", name, got)
		}
		got = a.Call("read_file_content_from_sandbox", args{"sandbox_id": sb, "path": name})
		if got["content"] != "{}" {
			t.Errorf("%s: %v", name, got)
		}
	}
	a.Call("pull_file_from_sandbox", args{
		"sandbox_id": sb, "sandbox_path": "./new/dir/data.json", "local_path": "./out/deep/copy.json",
	})
	if data, err := os.ReadFile(filepath.Join(dir, "out", "deep", "copy.json")); err != nil || string(data) != "{}" {
		t.Errorf("pulled: %q, %v", data, err)
	}
}

// The documented commands start "python". This machine's own image has only "python3".
func TestCompatMCP4ModalPython(t *testing.T) {
	python3 := func(_ context.Context, c *fake.Call) int {
		_, _ = fmt.Fprintf(c.Stdout, "python3 %s\n", strings.Join(c.Args[1:], " "))
		return 0
	}
	a := programBench(
		t, setup.Options{Compat: setup.MCP4Modal}, map[string]fake.Program{"python3": python3},
	).connect(t)
	sb := a.Call("launch_sandbox", args{"app_name": "a"})["sandbox_id"]
	got := a.Call("execute_command", args{"sandbox_id": sb, "command": []string{"python", "train.py", "--epochs", "1 0"}})
	if got["stdout"] != "python3 train.py --epochs 1 0\n" {
		t.Errorf("executed: %v", got)
	}
}

// Files in directories below the results have links, too.
func TestCompatLinksOfSubdirectories(t *testing.T) {
	var b *bench
	var sb string
	python3 := func(ctx context.Context, c *fake.Call) int {
		for _, name := range []string{"top.txt", "plots/deep/a.png"} {
			err := b.provider.WriteFile(
				ctx, sb, "/app/results/"+name, strings.NewReader(name), core.WriteOptions{Parents: true},
			)
			if err != nil {
				_, _ = io.WriteString(c.Stderr, err.Error())
				return 1
			}
		}
		return 0
	}
	b = programBench(t, setup.Options{Compat: setup.MCPSandbox}, map[string]fake.Program{"python3": python3})
	a := b.connect(t)
	sb, _ = a.Call("create_sandbox", args{})["sandbox_id"].(string)
	got := a.Call("execute_python_code", args{"sandbox_id": sb, "code": "save()"})
	links := fmt.Sprint(got["file_links"])
	if !strings.Contains(links, "top.txt") || !strings.Contains(links, "plots/deep/a.png") || got["exit_code"] != 0.0 {
		t.Errorf("executed: %v", got)
	}
}

// A package that cannot be installed has pip's own last lines, also when the installation outlasted its call.
func TestCompatFailedPackage(t *testing.T) {
	python3 := func(ctx context.Context, c *fake.Call) int {
		if c.Args[3] == "show" {
			_, _ = io.WriteString(c.Stderr, "WARNING: Package(s) not found: absent\n")
			return 1
		}
		for i := range 30 {
			_, _ = fmt.Fprintf(c.Stdout, "Looking in index %d\n", i)
		}
		if c.Args[len(c.Args)-1] == "slow" {
			timer := time.NewTimer(3 * time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		_, _ = io.WriteString(c.Stderr, "ERROR: No matching distribution found\n")
		return 1
	}
	a := programBench(
		t, setup.Options{Compat: setup.MCPSandbox}, map[string]fake.Program{"python3": python3},
	).connect(t)
	sb := a.Call("create_sandbox", args{})["sandbox_id"]
	check := func(got map[string]any) {
		t.Helper()
		details, _ := got["details"].(string)
		if got["status"] != "failed" || !strings.HasSuffix(details, "ERROR: No matching distribution found") ||
			strings.Contains(details, "index 3\n") {
			t.Errorf("got %v", got)
		}
	}
	check(a.Call("install_package_in_sandbox", args{"sandbox_id": sb, "package_name": "absent"}))
	check(a.Call("check_package_installation_status", args{"sandbox_id": sb, "package_name": "absent"}))
	got := a.Call("install_package_in_sandbox", args{"sandbox_id": sb, "package_name": "slow"})
	if got["status"] != "installing" {
		t.Fatalf("a slow installation: %v", got)
	}
	eventually(t, "the slow installation fails", func() bool {
		got = a.Call("check_package_installation_status", args{"sandbox_id": sb, "package_name": "slow"})
		return got["status"] != "installing"
	})
	check(got)
}
