package configs

import (
	"maps"

	"github.com/seed-0724f904/sb/core"
)

// Config is every setting, with all layers applied.
type Config struct {
	// Provider is where sandboxes are launched: a provider's name, or "auto".
	Provider string
	Defaults Defaults
	Quotas   Quotas
	Local    Local
	UI       UI
	Docker   Docker
	// Prices are what providers charge, by their names.
	Prices map[string]priceTable
	Images Images
}

// Defaults fill in what a launch leaves open. Zero means that the provider decides.
type Defaults struct {
	App         string
	Network     core.NetworkMode
	Timeout     core.Duration
	IdleTimeout core.Duration
	CPU         float64
	Memory      core.Bytes
	Disk        core.Bytes
	Processes   int
	OpenFiles   int
}

// Quotas bound what one user may have. Zero means no bound.
type Quotas struct {
	MaxSandboxes int
	MaxCPU       float64
	MaxMemory    core.Bytes
	MaxLifetime  core.Duration
}

// Local configures sandboxes on this machine.
type Local struct {
	// Runtime is the path of sb-runtime; "" looks beside sb and in PATH.
	Runtime string
	// SaveInterval is how often a persistent sandbox is saved while it changes.
	SaveInterval core.Duration
	// FreezeAfter is how long an idle sandbox stays awake; 0 is for ever.
	FreezeAfter core.Duration
	// LogLimit bounds the entry command's log.
	LogLimit core.Bytes
}

// UI configures the dashboard.
type UI struct {
	// Theme is "auto" or a theme's name.
	Theme string
	// Keys has keys in place of the default ones: "launch=ctrl+n quit=q,ctrl+q".
	Keys string
	// Mouse is "enabled" or "disabled".
	Mouse string
}

// Docker configures sandboxes in containers.
type Docker struct {
	// Host is the engine's address; "" looks for one, and "none" does not.
	Host string
	// Image is the default image.
	Image string
	// Guest is the path of sb-guest for the engine's processor; "" looks beside sb and in PATH.
	Guest string
	// Runtime is the engine's runtime for sandboxes; "" is the engine's default.
	Runtime string
	// GPUs is the type and number of the engine's GPUs: "H100:2".
	GPUs core.GPU
	// Mounts lists host directories that volumes may come from, between colons.
	Mounts string
}

// Images names the image of sandboxes that one run of code in a language gets for itself; "" is the provider's default.
type Images struct {
	Python     string
	JavaScript string
	Bash       string
}

// ByLanguage returns those that are set, by the names of languages that run_code takes.
func (i Images) ByLanguage() map[string]string {
	images := map[string]string{"python": i.Python, "javascript": i.JavaScript, "bash": i.Bash}
	maps.DeleteFunc(images, func(_, image string) bool { return image == "" })
	return images
}

// Setting is one key as it stands in config.yaml.
type Setting struct {
	// Key is dotted: "defaults.memory". Its variable is SB_ and the key in upper case, with "_" for ".".
	Key string `json:"key"`
	// Value is the text of the value in force.
	Value string `json:"value"`
	// Origin is "default", "file PATH" or "environment NAME".
	Origin string `json:"origin"`
	// Doc says what it is for.
	Doc string `json:"doc"`
}

// key ties a setting to its field.
type key struct {
	name, fallback, doc string
	kind                kind
	choices             []string // for kindChoice
	set                 func(*Config, string) error
	get                 func(Config) string
}

// keys lists all settings in the order in which they are shown.
func keys() []key {
	return []key{
		text("provider", core.ProviderAuto, "where sandboxes are launched: auto, or a provider's name", func(c *Config) *string { return &c.Provider }),
		text("defaults.app", "", "the app that sandboxes belong to", func(c *Config) *string { return &c.Defaults.App }),
		choice("defaults.network", string(core.NetworkAll), "all or none", []string{string(core.NetworkAll), string(core.NetworkNone)}, func(c *Config) *core.NetworkMode { return &c.Defaults.Network }),
		duration("defaults.timeout", "24h", "how long a sandbox lives; 0 is for ever", func(c *Config) *core.Duration { return &c.Defaults.Timeout }),
		duration("defaults.idle_timeout", "0", "how long a sandbox in which nothing runs lives; 0 is for ever", func(c *Config) *core.Duration { return &c.Defaults.IdleTimeout }),
		decimal("defaults.cpu", "0", "cores; 0 is all", func(c *Config) *float64 { return &c.Defaults.CPU }),
		size("defaults.memory", "2GiB", "memory; 0 is no limit", func(c *Config) *core.Bytes { return &c.Defaults.Memory }),
		size("defaults.disk", "8GiB", "what a sandbox may write; 0 is no limit", func(c *Config) *core.Bytes { return &c.Defaults.Disk }),
		whole("defaults.processes", "1024", "processes at the same time; 0 is no limit", func(c *Config) *int { return &c.Defaults.Processes }),
		whole("defaults.open_files", "65536", "open files of one process; 0 is no limit", func(c *Config) *int { return &c.Defaults.OpenFiles }),
		whole("quotas.max_sandboxes", "0", "live sandboxes; 0 is no bound", func(c *Config) *int { return &c.Quotas.MaxSandboxes }),
		decimal("quotas.max_cpu", "0", "cores of one sandbox; 0 is no bound", func(c *Config) *float64 { return &c.Quotas.MaxCPU }),
		size("quotas.max_memory", "0", "memory of one sandbox; 0 is no bound", func(c *Config) *core.Bytes { return &c.Quotas.MaxMemory }),
		duration("quotas.max_lifetime", "0", "lifetime of one sandbox; 0 is no bound", func(c *Config) *core.Duration { return &c.Quotas.MaxLifetime }),
		text("local.runtime", "", "path of sb-runtime; empty looks beside sb and in PATH", func(c *Config) *string { return &c.Local.Runtime }),
		duration("local.save_interval", "1m", "how often a persistent sandbox is saved while it changes", func(c *Config) *core.Duration { return &c.Local.SaveInterval }),
		duration("local.freeze_after", "1s", "how long an idle sandbox stays awake; 0 is for ever", func(c *Config) *core.Duration { return &c.Local.FreezeAfter }),
		size("local.log_limit", "16MiB", "what is kept of an entry command's output", func(c *Config) *core.Bytes { return &c.Local.LogLimit }),
		prices("modal", modalPrices, "what Modal charges per second, as words KEY=VALUE (docs/modal.md, Prices, lists the keys); none has no prices"),
		prices("docker", "", "what a container engine's sandboxes cost per second, in the same form; empty is nothing"),
		prices("local", "", "what sandboxes on this machine cost per second, in the same form; empty is nothing"),
		choice("ui.theme", "auto", "the dashboard's colours; auto follows the terminal's background", []string{"auto", "dark", "light", "contrast", "plain"}, func(c *Config) *string { return &c.UI.Theme }),
		text("ui.keys", "", "the dashboard's keys, as COMMAND=KEY[,KEY...] with blanks between: launch=ctrl+n quit=q,ctrl+q", func(c *Config) *string { return &c.UI.Keys }),
		choice("ui.mouse", "enabled", "whether the dashboard has the mouse; disabled leaves it to the terminal", []string{"enabled", "disabled"}, func(c *Config) *string { return &c.UI.Mouse }),
		text("docker.host", "", "the container engine's address, as in DOCKER_HOST; empty looks for one, none uses none", func(c *Config) *string { return &c.Docker.Host }),
		text("docker.image", "debian:bookworm-slim", "the image of sandboxes in containers, when none is asked for", func(c *Config) *string { return &c.Docker.Image }),
		text("docker.runtime", "", "the engine's runtime for sandboxes, such as runsc; empty is its default", func(c *Config) *string { return &c.Docker.Runtime }),
		text("docker.guest", "", "path of sb-guest for the engine's processor; empty looks beside sb and in PATH", func(c *Config) *string { return &c.Docker.Guest }),
		gpus("docker.gpus", "type and number of the container engine's GPUs, which no engine tells, such as H100:2", func(c *Config) *core.GPU { return &c.Docker.GPUs }),
		text("docker.mounts", "", "directories of the host that volumes may come from, between colons", func(c *Config) *string { return &c.Docker.Mounts }),
		text("images.python", "", "the image that Python code of sb mcp runs in, when no sandbox is named", func(c *Config) *string { return &c.Images.Python }),
		text("images.javascript", "", "the same for JavaScript", func(c *Config) *string { return &c.Images.JavaScript }),
		text("images.bash", "", "the same for bash", func(c *Config) *string { return &c.Images.Bash }),
	}
}

// Core returns the launch defaults and the quotas as the service takes them.
func (c Config) Core() (core.Defaults, core.Quotas) {
	d, q := c.Defaults, c.Quotas
	defaults := core.Defaults{
		Provider: c.Provider, App: d.App, Network: d.Network, Timeout: d.Timeout, IdleTimeout: d.IdleTimeout,
		CPU: d.CPU, Memory: d.Memory, Disk: d.Disk, Processes: d.Processes, OpenFiles: d.OpenFiles,
	}
	quotas := core.Quotas{
		MaxSandboxes: q.MaxSandboxes, MaxCPU: q.MaxCPU, MaxMemory: q.MaxMemory, MaxLifetime: q.MaxLifetime,
	}
	return defaults, quotas
}
