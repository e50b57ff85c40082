package configs

import (
	"maps"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Config holds every setting, with all layers applied. It does not change after Load.
type Config struct {
	// Defaults apply to the fields that a launch leaves open. Zero leaves them to the provider.
	Defaults core.Spec
	Quotas   service.Quotas
	Local    Local
	UI       UI
	Docker   Docker
	// Prices are the providers' price tables, by provider.
	Prices map[string]priceTable
	Images Images
}

// Local configures sandboxes on this machine.
type Local struct {
	// Runtime is the path of sb-runtime; "" searches beside sb, then PATH.
	Runtime string
	// SaveInterval is the time between saves of a persistent sandbox that changes.
	SaveInterval core.Duration
	// FreezeAfter is the time until an idle sandbox is frozen; 0 is never.
	FreezeAfter core.Duration
	// LogLimit is the size of the entry command's log.
	LogLimit core.Bytes
}

// UI configures the dashboard.
type UI struct {
	// Theme is "auto" or a theme's name.
	Theme string
	// Keys replaces default keys: "launch=ctrl+n quit=q,ctrl+q".
	Keys string
	// Mouse is "enabled" or "disabled".
	Mouse string
}

// Docker configures sandboxes in containers.
type Docker struct {
	// Host is the engine's address; "" searches, "none" uses no engine.
	Host string
	// Image is the default image.
	Image string
	// Guest is the path of sb-guest for the engine's processor; "" searches beside sb, then PATH.
	Guest string
	// Runtime is the engine's runtime for sandboxes; "" is the engine's default.
	Runtime string
	// GPUs is the type and number of the engine's GPUs: "H100:2".
	GPUs core.GPU
	// Mounts lists host directories that volumes may use, separated by colons.
	Mounts string
}

// Images are the images for code that sb mcp runs without a sandbox, by language; "" is the provider's default.
type Images struct {
	Python     string
	JavaScript string
	Bash       string
}

// ByLanguage returns the images that are set, by run_code's names of languages.
func (i Images) ByLanguage() map[string]string {
	images := map[string]string{"python": i.Python, "javascript": i.JavaScript, "bash": i.Bash}
	maps.DeleteFunc(images, func(_, image string) bool { return image == "" })
	return images
}

// Setting is one key of config.yaml with its value.
type Setting struct {
	// Key is dotted: "defaults.memory". Variable returns its environment variable.
	Key string `json:"key"`
	// Value is the text of the value that applies.
	Value string `json:"value"`
	// Origin is "default", "file PATH" or "environment NAME".
	Origin string `json:"origin"`
	// Doc is a short description.
	Doc string `json:"doc"`
}

// key connects a setting to its field.
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
		text("provider", core.ProviderAuto, "provider of new sandboxes: auto, or a provider's name",
			func(c *Config) *string { return &c.Defaults.Provider }),

		ofSpec("app", ""),
		choice("defaults.network", string(core.NetworkAll), "network policy: all or none",
			[]string{string(core.NetworkAll), string(core.NetworkNone)},
			func(c *Config) *core.NetworkMode { return &c.Defaults.Network.Mode }),
		ofSpec("timeout", "24h"),
		ofSpec("idle_timeout", "0"),
		ofSpec("cpu", "0"),
		ofSpec("memory", "2GiB"),
		ofSpec("disk", "8GiB"),
		ofSpec("processes", "1024"),
		ofSpec("open_files", "65536"),

		whole("quotas.max_sandboxes", "0", "sandboxes at the same time; 0 is no limit",
			func(c *Config) *int { return &c.Quotas.MaxSandboxes }),
		decimal("quotas.max_cpu", "0", "most cores of one sandbox; 0 is no limit",
			func(c *Config) *float64 { return &c.Quotas.MaxCPU }),
		size("quotas.max_memory", "0", "most memory of one sandbox; 0 is no limit",
			func(c *Config) *core.Bytes { return &c.Quotas.MaxMemory }),
		duration("quotas.max_lifetime", "0", "longest lifetime of one sandbox; 0 is no limit",
			func(c *Config) *core.Duration { return &c.Quotas.MaxLifetime }),

		text("local.runtime", "", "path of sb-runtime; empty searches beside sb, then PATH",
			func(c *Config) *string { return &c.Local.Runtime }),
		duration("local.save_interval", "1m", "time between saves of a persistent sandbox that changes",
			func(c *Config) *core.Duration { return &c.Local.SaveInterval }),
		duration("local.freeze_after", "1s", "time until an idle sandbox is frozen; 0 is never",
			func(c *Config) *core.Duration { return &c.Local.FreezeAfter }),
		size("local.log_limit", "16MiB", "size of the kept output of an entry command",
			func(c *Config) *core.Bytes { return &c.Local.LogLimit }),

		prices("modal", modalPrices,
			"Modal's prices per second, as words KEY=VALUE; docs/modal.md lists the keys; none has no prices"),
		prices("docker", "", "prices per second of containers, in the same form; empty has no prices"),
		prices("local", "", "prices per second of sandboxes on this machine, in the same form; empty has no prices"),

		choice("ui.theme", "auto", "colors of the dashboard; auto follows the terminal's background",
			[]string{"auto", "dark", "light", "contrast", "plain"},
			func(c *Config) *string { return &c.UI.Theme }),
		text("ui.keys", "", "keys of the dashboard, as words COMMAND=KEY[,KEY...]: launch=ctrl+n quit=q,ctrl+q",
			func(c *Config) *string { return &c.UI.Keys }),
		choice("ui.mouse", "enabled", "mouse in the dashboard; disabled leaves it to the terminal",
			[]string{"enabled", "disabled"},
			func(c *Config) *string { return &c.UI.Mouse }),

		text("docker.host", "", "address of the container engine, as in DOCKER_HOST; empty searches, none uses none",
			func(c *Config) *string { return &c.Docker.Host }),
		text("docker.image", "debian:bookworm-slim", "default image of containers",
			func(c *Config) *string { return &c.Docker.Image }),
		text("docker.runtime", "", "the engine's runtime for sandboxes, such as runsc; empty is the engine's default",
			func(c *Config) *string { return &c.Docker.Runtime }),
		text("docker.guest", "", "path of sb-guest for the engine's processor; empty searches beside sb, then PATH",
			func(c *Config) *string { return &c.Docker.Guest }),
		gpus("docker.gpus", "type and number of the engine's GPUs, such as H100:2",
			func(c *Config) *core.GPU { return &c.Docker.GPUs }),
		text("docker.mounts", "", "host directories that volumes may use, separated by colons",
			func(c *Config) *string { return &c.Docker.Mounts }),

		text("images.python", "", "image for Python code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.Python }),
		text("images.javascript", "", "image for JavaScript code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.JavaScript }),
		text("images.bash", "", "image for bash code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.Bash }),
	}
}
