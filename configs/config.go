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
	MCP    MCP
	// HostPaths lists the host directories that sandboxes may mount, separated by colons; see service.HostPaths.
	HostPaths string
	// Packages configures --pip, --apt, and npm in sandboxes.
	Packages Packages
}

// Packages configures the installation of packages.
type Packages struct {
	// PipIndex is the address of the package index of pip; "" is pip's own.
	PipIndex string
	// AptMirror is the address of the archive of apt; "" is the image's.
	AptMirror string
	// NPMRegistry is the address of the package registry of npm; "" is npm's own.
	NPMRegistry string
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
	// Spares is the number of sandboxes that are prepared for later launches; 0 is none.
	Spares int
	// SpareAge is the time until an unused spare ends.
	SpareAge core.Duration
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
}

// Images configures the stored images and downloads, and names the images for code that runs without a sandbox.
type Images struct {
	// MaxSize bounds the images that are stored for sandboxes on this machine; 0 is no bound.
	MaxSize core.Bytes
	// Registries configures the downloads of sandboxes on this machine.
	Registries core.Registries
	// The images by language; "" is the provider's default.
	Python, JavaScript, Bash                    string
	TypeScript, Go, C, CPP, Rust, Java, Ruby, R string
}

// ByLanguage returns the images that are set, by the names of core/code's languages.
func (i Images) ByLanguage() map[string]string {
	images := map[string]string{
		"python": i.Python, "javascript": i.JavaScript, "bash": i.Bash, "typescript": i.TypeScript, "go": i.Go, "c": i.C,
		"cpp": i.CPP, "rust": i.Rust, "java": i.Java, "ruby": i.Ruby, "r": i.R,
	}
	maps.DeleteFunc(images, func(_, image string) bool { return image == "" })
	return images
}

// MCP configures the tools of sb mcp. Its flags replace these values.
type MCP struct {
	// Toolsets, Tools and ExcludedTools are names, separated by commas; empty Toolsets and Tools are the default ones.
	Toolsets, Tools, ExcludedTools string
	// Mode is "all" or "read-only".
	Mode string
	// Pictures is "enabled" or "disabled".
	Pictures string
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
		ofSpec("pull", string(core.PullMissing)),
		ofSpec("timeout", "24h"),
		ofSpec("idle_timeout", "0"),
		ofSpec("cpu", "0"),
		ofSpec("memory", "2GiB"),
		ofSpec("disk", "8GiB"),
		ofSpec("processes", "1024"),
		ofSpec("open_files", "65536"),

		text("host_paths", "", "the only host directories that sandboxes may mount, separated by colons, such as "+
			".:~/models; empty is the current directory and the command line's",
			func(c *Config) *string { return &c.HostPaths }),

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
		whole("local.spares", "1", "sandboxes to prepare after a launch, so that the next launch is faster; 0 is none",
			func(c *Config) *int { return &c.Local.Spares }),
		duration("local.spare_age", "2m", "time until an unused prepared sandbox ends",
			func(c *Config) *core.Duration { return &c.Local.SpareAge }),

		text("pip.index_url", "", "package index of --pip; empty is pip's own",
			func(c *Config) *string { return &c.Packages.PipIndex }),
		text("apt.mirror", "", "archive of --apt in place of the image's: http://mirror.example/debian; empty is the image's",
			func(c *Config) *string { return &c.Packages.AptMirror }),
		text("npm.registry", "", "package registry of npm in builds and sandboxes on this machine; empty is npm's own",
			func(c *Config) *string { return &c.Packages.NPMRegistry }),

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

		mirrors("images.mirrors", "mirrors for sandboxes on this machine, as words REGISTRY=HOST[/PATH][,HOST...]",
			func(c *Config) *map[string][]string { return &c.Images.Registries.Mirrors }),
		registries("images.insecure", "registries, as words HOST[:PORT], that may use http or an unverified certificate",
			func(c *Config) *[]string { return &c.Images.Registries.Insecure }),
		size("images.max_size", "0",
			"size of the images on this machine; a pull above it removes unused ones; 0 is no limit",
			func(c *Config) *core.Bytes { return &c.Images.MaxSize }),
		text("images.python", "", "image for Python code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.Python }),
		text("images.javascript", "", "image for JavaScript code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.JavaScript }),
		text("images.bash", "", "image for bash code that sb mcp runs without a sandbox",
			func(c *Config) *string { return &c.Images.Bash }),
		text("images.typescript", "", "image for TypeScript programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.TypeScript }),
		text("images.go", "", "image for Go programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.Go }),
		text("images.c", "", "image for C programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.C }),
		text("images.cpp", "", "image for C++ programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.CPP }),
		text("images.rust", "", "image for Rust programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.Rust }),
		text("images.java", "", "image for Java programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.Java }),
		text("images.ruby", "", "image for Ruby programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.Ruby }),
		text("images.r", "", "image for R programs that sb code runs without a sandbox",
			func(c *Config) *string { return &c.Images.R }),

		text("mcp.toolsets", "", "toolsets of sb mcp, separated by commas; empty is the default one",
			func(c *Config) *string { return &c.MCP.Toolsets }),
		text("mcp.tools", "", "additional tools of sb mcp, separated by commas",
			func(c *Config) *string { return &c.MCP.Tools }),
		text("mcp.exclude_tools", "", "tools that sb mcp leaves out, separated by commas",
			func(c *Config) *string { return &c.MCP.ExcludedTools }),
		choice("mcp.mode", "all", "tools of sb mcp: all, or only those that change nothing", []string{"all", "read-only"},
			func(c *Config) *string { return &c.MCP.Mode }),
		choice("mcp.pictures", "enabled", "pictures in the results of sb mcp; disabled replaces them by a text",
			[]string{"enabled", "disabled"},
			func(c *Config) *string { return &c.MCP.Pictures }),
	}
}
