package tools

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// SandboxIn names one sandbox.
type SandboxIn struct {
	Sandbox string `json:"sandbox"`
}

type timeoutIn struct {
	Sandbox string `json:"sandbox"`
	Timeout int    `json:"timeout_seconds" jsonschema:"from now"`
}

// SnapshotIn is the input of snapshot.
type SnapshotIn struct {
	Sandbox string `json:"sandbox"`
	Name    string `json:"name,omitempty" jsonschema:"name of the snapshot"`
}

// SnapshotOut is a saved snapshot.
type SnapshotOut struct {
	Snapshot string `json:"snapshot" jsonschema:"for the argument snapshot of sandbox_launch"`
	Provider string `json:"provider"`
	Size     int64  `json:"size_bytes,omitempty"`
	Hint     string `json:"hint,omitempty" jsonschema:"another use of it"`
}

// Text implements texter.
func (o SnapshotOut) Text() string {
	return strings.TrimSpace("saved as " + o.Snapshot + " at " + o.Provider + "\n" + o.Hint)
}

type statsOut struct {
	CPUSeconds  float64    `json:"cpu_seconds" jsonschema:"processor time since the launch"`
	Memory      core.Bytes `json:"memory_bytes"`
	MemoryLimit core.Bytes `json:"memory_limit_bytes,omitempty"`
	Processes   int        `json:"processes"`
	Disk        core.Bytes `json:"disk_bytes" jsonschema:"written bytes"`
	DiskLimit   core.Bytes `json:"disk_limit_bytes,omitempty"`
}

// ExecsOut is a list of commands.
type ExecsOut struct {
	Execs []execEntry `json:"execs" jsonschema:"the newest, oldest first"`
	Older int         `json:"older,omitempty" jsonschema:"number of commands before them"`
}

type execEntry struct {
	Exec     string    `json:"exec_id"`
	Command  []string  `json:"command"`
	Running  bool      `json:"running"`
	ExitCode *int      `json:"exit_code,omitempty"`
	Started  time.Time `json:"started"`
	Actor    string    `json:"actor,omitempty" jsonschema:"the user or client that started it"`
}

// Text implements texter.
func (o ExecsOut) Text() string {
	if len(o.Execs) == 0 {
		return "no commands were run"
	}
	var lines []string
	if o.Older > 0 {
		lines = append(lines, fmt.Sprintf("%d older ones, and then:", o.Older))
	}
	for _, e := range o.Execs {
		state := "running"
		if !e.Running {
			state = "ended"
			if e.ExitCode != nil {
				state = fmt.Sprintf("exit code %d", *e.ExitCode)
			}
		}
		lines = append(lines, fmt.Sprintf(
			"%s: %s, started %s by %s: %s", e.Exec, state, e.Started.UTC().Format(time.RFC3339), cmp.Or(e.Actor, "unknown"),
			oneCommand(e.Command),
		))
	}
	return list(lines)
}

func oneCommand(argv []string) string {
	if len(argv) == 3 && argv[1] == "-c" {
		argv = argv[2:]
	}
	text := strings.ReplaceAll(strings.Join(argv, " "), "\n", "; ")
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return text
}

func lifecycleTools() []Tool {
	step := func(name, title, description string, destructive bool, do func(context.Context, *Call, string) error) Tool {
		return Define(Tool{
			Name: name, Title: title, Description: description, Toolset: setup.Lifecycle, Extra: true, Destructive: destructive,
			Idempotent: true, Continues: true,
		}, func(ctx context.Context, c *Call, in SandboxIn) (SandboxInfo, error) {
			return c.after(ctx, in.Sandbox, do)
		})
	}
	return []Tool{
		step(
			"sandbox_stop", "Stop a sandbox",
			"Stop a persistent sandbox and keep its files. sandbox_start starts it again.",
			true, func(ctx context.Context, c *Call, ref string) error {
				return c.Service.Sandboxes.Stop(ctx, ref, killGrace)
			}),
		step(
			"sandbox_start", "Start a sandbox",
			"Start a stopped sandbox again with its files. Its processes do not come back.",
			false, func(ctx context.Context, c *Call, ref string) error {
				_, err := c.Service.Sandboxes.Start(ctx, ref)
				return err
			}),
		step(
			"sandbox_pause", "Pause a sandbox",
			"Suspend the processes of a sandbox and keep them in memory. sandbox_resume continues them.",
			false, func(ctx context.Context, c *Call, ref string) error {
				return c.Service.Sandboxes.Pause(ctx, ref)
			}),
		step(
			"sandbox_resume", "Resume a sandbox",
			"Resume the processes of a paused sandbox. They continue where they were suspended.",
			false, func(ctx context.Context, c *Call, ref string) error {
				return c.Service.Sandboxes.Resume(ctx, ref)
			}),
		Define(Tool{
			Name: "sandbox_timeout", Title: "Set the remaining lifetime", Toolset: setup.Lifecycle, Extra: true,
			Idempotent: true,
			Description: "Set the remaining lifetime of a sandbox, counted from now. The sandbox ends then, whether " +
				"or not a client is connected.",
		}, setTimeout),
		Define(Tool{
			Name: "sandbox_stats", Title: "Resource usage of a sandbox", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true,
			Idempotent: true,
			Description: "Measure the processor time, memory, processes and disk of a sandbox. The values are those " +
				"of this moment.",
		}, measure),
		Define(Tool{
			Name: "exec_list", Title: "List commands", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the commands of a sandbox with their exec_id, running or ended, of all " +
				"clients. exec_wait returns the output of one.",
		}, ListExecs),
		Define(Tool{
			Name: "snapshot", Title: "Save a sandbox", Toolset: setup.Lifecycle, Extra: true, OpenWorld: true,
			Continues: true,
			Description: "Save the files of a sandbox as a snapshot. sandbox_launch with that snapshot starts from " +
				"them.",
		}, Snapshot),
		Define(Tool{
			Name: "dockerfile", Title: "Write a Dockerfile", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true,
			Idempotent: true, Continues: true,
			Description: "Write a Dockerfile with the image, the small text files and the successful commands of a " +
				"sandbox. " +
				"Comments name other files that differ; \"sb export dockerfile NAME -o DIR\" adds them.",
		}, Dockerfile),
	}
}

// after runs do on a sandbox and returns the sandbox's new state.
func (c *Call) after(
	ctx context.Context, name string, do func(context.Context, *Call, string) error,
) (SandboxInfo, error) {
	sb, err := c.Find(ctx, name)
	if err != nil {
		return SandboxInfo{}, err
	}
	ref := sb.Ref()
	if err := do(ctx, c, ref); err != nil {
		return SandboxInfo{}, err
	}
	sb, err = c.Service.Sandboxes.Resolve(ctx, ref)
	if err == nil {
		c.adopt(sb)
	}
	return InfoOf(sb), err
}

func setTimeout(ctx context.Context, c *Call, in timeoutIn) (SandboxInfo, error) {
	if in.Timeout < 1 {
		return SandboxInfo{}, core.Errorf(core.KindUsage, "timeout", "", "timeout_seconds must be at least 1")
	}
	timeout := seconds(in.Timeout)
	return c.after(ctx, in.Sandbox, func(ctx context.Context, c *Call, ref string) error {
		_, err := c.Service.Sandboxes.SetTimeout(ctx, ref, timeout)
		if err == nil && c.Host.Options.OnDisconnect != setup.Terminate {
			c.Session.Release(ref)
		}
		return err
	})
}

func measure(ctx context.Context, c *Call, in SandboxIn) (statsOut, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return statsOut{}, err
	}
	stats, err := c.Service.Sandboxes.Stats(ctx, sb.Ref())
	return statsOut{
		CPUSeconds: stats.CPU.Seconds(), Memory: stats.Memory, MemoryLimit: stats.MemoryLimit,
		Processes: stats.Processes, Disk: stats.Disk, DiskLimit: stats.DiskLimit,
	}, err
}

const (
	// MaxListed bounds the entries of a list of commands.
	MaxListed = 100
	// MaxArgument bounds the characters of each argument in it.
	MaxArgument = 500
)

// ListExecs lists the commands of a sandbox.
func ListExecs(ctx context.Context, c *Call, in SandboxIn) (ExecsOut, error) {
	out := ExecsOut{Execs: []execEntry{}}
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	execs, err := c.Service.Execs.List(ctx, sb.Ref())
	if err != nil {
		return out, err
	}
	out.Older = max(0, len(execs)-MaxListed)
	for _, e := range execs[out.Older:] {
		out.Execs = append(out.Execs, c.entryOf(sb.ID, e))
	}
	return out, nil
}

// entryOf describes a command of a sandbox, without the values of secrets.
func (c *Call) entryOf(sandbox string, e core.Exec) execEntry {
	argv := c.cleanArgv(sandbox, e.Command)
	for i, arg := range argv {
		if short := reply.FirstRunes([]byte(arg), MaxArgument); len(short) < len(arg) {
			argv[i] = string(short) + "…"
		}
	}
	entry := execEntry{Exec: e.ID, Command: argv, Running: e.Running(), Started: e.Started, Actor: e.Actor}
	if e.Exit != nil {
		entry.ExitCode = &e.Exit.Code
	}
	return entry
}

func (c *Call) cleanArgv(sandbox string, argv []string) []string {
	clean := make([]string, len(argv))
	for i, arg := range argv {
		clean[i] = c.Host.Secrets.Clean(sandbox, arg)
	}
	return clean
}

// Snapshot saves a sandbox's files.
func Snapshot(ctx context.Context, c *Call, in SnapshotIn) (SnapshotOut, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return SnapshotOut{}, err
	}
	saved, err := c.Service.Sandboxes.Snapshot(ctx, sb.ID, core.SnapshotOptions{Name: in.Name})
	return SnapshotOut{Snapshot: saved.ID, Provider: saved.Provider, Size: int64(saved.Size), Hint: saved.Hint}, err
}
