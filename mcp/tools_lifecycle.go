package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type sandboxIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
}

type timeoutIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Timeout int    `json:"timeout_seconds" jsonschema:"it ends that long from now"`
}

type snapshotIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Name    string `json:"name,omitempty" jsonschema:"name of the snapshot"`
}

type snapshotOut struct {
	Snapshot string `json:"snapshot" jsonschema:"what sandbox_launch takes as snapshot"`
	Provider string `json:"provider"`
	Size     int64  `json:"size_bytes,omitempty"`
	Hint     string `json:"hint,omitempty" jsonschema:"what else can be done with it"`
}

func (o snapshotOut) Text() string {
	return strings.TrimSpace("saved as " + o.Snapshot + " at " + o.Provider + "\n" + o.Hint)
}

type statsOut struct {
	CPUSeconds  float64    `json:"cpu_seconds" jsonschema:"processor time since the launch"`
	Memory      core.Bytes `json:"memory_bytes"`
	MemoryLimit core.Bytes `json:"memory_limit_bytes,omitempty"`
	Processes   int        `json:"processes"`
	Disk        core.Bytes `json:"disk_bytes" jsonschema:"what was written"`
	DiskLimit   core.Bytes `json:"disk_limit_bytes,omitempty"`
}

type execsOut struct {
	Execs []execEntry `json:"execs" jsonschema:"the newest, oldest first"`
	Older int         `json:"older,omitempty" jsonschema:"how many were run before them"`
}

type execEntry struct {
	Exec     string    `json:"exec_id"`
	Command  []string  `json:"command"`
	Running  bool      `json:"running"`
	ExitCode *int      `json:"exit_code,omitempty"`
	Started  time.Time `json:"started"`
	Actor    string    `json:"actor,omitempty" jsonschema:"who started it"`
}

func (o execsOut) Text() string {
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
		lines = append(lines, fmt.Sprintf("%s: %s: %s", e.Exec, state, oneCommand(e.Command)))
	}
	return strings.Join(lines, "\n")
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
	step := func(name, title, description string, destructive bool, do func(context.Context, *call, string) error) Tool {
		return define(Tool{
			Name: name, Title: title, Description: description, Toolset: setup.Lifecycle, Extra: true, Destructive: destructive, Idempotent: true,
		}, func(ctx context.Context, c *call, in sandboxIn) (sandboxInfo, error) {
			return c.after(ctx, in.Sandbox, do)
		})
	}
	return []Tool{
		step("sandbox_stop", "Stop a sandbox", "Stop a persistent sandbox and keep its files.", true, func(ctx context.Context, c *call, ref string) error {
			return c.service.Stop(ctx, ref, killGrace)
		}),
		step("sandbox_start", "Start a sandbox", "Start a stopped sandbox again.", false, func(ctx context.Context, c *call, ref string) error {
			_, err := c.service.Start(ctx, ref)
			return err
		}),
		step("sandbox_pause", "Pause a sandbox", "Suspend every process of a sandbox, in memory.", false, func(ctx context.Context, c *call, ref string) error {
			return c.service.Pause(ctx, ref)
		}),
		step("sandbox_resume", "Resume a sandbox", "Resume the processes of a paused sandbox.", false, func(ctx context.Context, c *call, ref string) error {
			return c.service.Resume(ctx, ref)
		}),
		define(Tool{
			Name: "sandbox_timeout", Title: "Change when a sandbox ends", Toolset: setup.Lifecycle, Extra: true, Idempotent: true,
			Description: "Make a sandbox end so long from now, also when this client is gone by then.",
		}, setTimeout),
		define(Tool{
			Name: "sandbox_stats", Title: "What a sandbox uses", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "Measure processor time, memory, processes and disk of a sandbox.",
		}, measure),
		define(Tool{
			Name: "exec_list", Title: "List commands", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the commands that were run in a sandbox, by anybody, with their ids.",
		}, listExecs),
		define(Tool{
			Name: "snapshot", Title: "Save a sandbox", Toolset: setup.Lifecycle, Extra: true, OpenWorld: true,
			Description: "Save a sandbox's files as a snapshot that others can start from.",
		}, snapshot),
		define(Tool{
			Name: "dockerfile", Title: "Write a Dockerfile", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "Write a Dockerfile that repeats what was done in a sandbox: its image, the files that file_write wrote, and the commands that succeeded.",
		}, dockerfile),
	}
}

// after does something to a sandbox and tells what it is like then.
func (c *call) after(ctx context.Context, name string, do func(context.Context, *call, string) error) (sandboxInfo, error) {
	sb, err := c.find(ctx, name)
	if err != nil {
		return sandboxInfo{}, err
	}
	ref := sb.Ref()
	if err := do(ctx, c, ref); err != nil {
		return sandboxInfo{}, err
	}
	sb, err = c.service.Resolve(ctx, ref)
	if err == nil {
		c.adopt(sb)
	}
	return infoOf(sb), err
}

func setTimeout(ctx context.Context, c *call, in timeoutIn) (sandboxInfo, error) {
	if in.Timeout < 1 {
		return sandboxInfo{}, core.Errorf(core.KindUsage, "timeout", "", "timeout_seconds must be at least 1")
	}
	timeout := seconds(in.Timeout)
	return c.after(ctx, in.Sandbox, func(ctx context.Context, c *call, ref string) error {
		_, err := c.service.SetTimeout(ctx, ref, timeout)
		if err == nil && c.host.Options.OnDisconnect != setup.Terminate {
			c.session.release(ref)
		}
		return err
	})
}

func measure(ctx context.Context, c *call, in sandboxIn) (statsOut, error) {
	sb, err := c.resolve(ctx, in.Sandbox)
	if err != nil {
		return statsOut{}, err
	}
	stats, err := c.service.Stats(ctx, sb.Ref())
	return statsOut{
		CPUSeconds: stats.CPU.Seconds(), Memory: stats.Memory, MemoryLimit: stats.MemoryLimit,
		Processes: stats.Processes, Disk: stats.Disk, DiskLimit: stats.DiskLimit,
	}, err
}

const (
	// maxListed is how many entries a list of commands has, maxArgument how many characters of each argument.
	maxListed   = 100
	maxArgument = 500
)

func listExecs(ctx context.Context, c *call, in sandboxIn) (execsOut, error) {
	out := execsOut{Execs: []execEntry{}}
	sb, err := c.resolve(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	execs, err := c.service.Execs(ctx, sb.Ref())
	if err != nil {
		return out, err
	}
	out.Older = max(0, len(execs)-maxListed)
	for _, e := range execs[out.Older:] {
		argv := c.cleanArgv(sb.ID, e.Command)
		for i, arg := range argv {
			if short := firstRunes([]byte(arg), maxArgument); len(short) < len(arg) {
				argv[i] = string(short) + "…"
			}
		}
		entry := execEntry{Exec: e.ID, Command: argv, Running: e.Running(), Started: e.Started, Actor: e.Actor}
		if e.Exit != nil {
			entry.ExitCode = &e.Exit.Code
		}
		out.Execs = append(out.Execs, entry)
	}
	return out, nil
}

func (c *call) cleanArgv(sandbox string, argv []string) []string {
	clean := make([]string, len(argv))
	for i, arg := range argv {
		clean[i] = c.host.secrets.clean(sandbox, arg)
	}
	return clean
}

func snapshot(ctx context.Context, c *call, in snapshotIn) (snapshotOut, error) {
	sb, err := c.resolve(ctx, in.Sandbox)
	if err != nil {
		return snapshotOut{}, err
	}
	saved, err := c.service.Snapshot(ctx, sb.ID, core.SnapshotOptions{Name: in.Name})
	return snapshotOut{Snapshot: saved.ID, Provider: saved.Provider, Size: int64(saved.Size), Hint: saved.Hint}, err
}
