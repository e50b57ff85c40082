//go:build linux

package engine

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostview"
)

// GuestPath is the path of sb-guest in the sandbox. Long-running processes are started from there: Checkpoint cannot
// save a process whose program came by descriptor, because that is mapped from the host. The path is a mount that no
// process inside can write, replace or remove. It is in a file system in memory, so no saved file can be in its place.
const GuestPath = "/dev/.sb-guest-program"

// capabilities are the capabilities of root inside a sandbox, as Docker gives them to root by default. They apply to
// gVisor's kernel only, never to the host's.
func capabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// spec returns the OCI spec of the sandbox's only container.
func (c Config) spec(root string) *specs.Spec {
	caps := capabilities()
	var limits []specs.POSIXRlimit
	limit := func(name string, value int) {
		if value > 0 {
			limits = append(limits, specs.POSIXRlimit{Type: name, Hard: uint64(value), Soft: uint64(value)})
		}
	}
	limit("RLIMIT_NOFILE", c.Limits.OpenFiles)
	if c.Limits.Processes > 0 {
		limit("RLIMIT_NPROC", c.Limits.Processes+helperTasks) // limitTasks refuses earlier
	}
	shm := "size=64m"
	if c.Limits.Memory > 0 {
		shm = "size=" + strconv.FormatInt(min(64<<20, c.Limits.Memory/2), 10)
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=755", "size=1m"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"mode=1777", shm}},
		{Destination: GuestPath, Type: "bind", Source: c.Guest, Options: []string{"bind", "ro", "nosuid", "nodev"}},
	}
	annotations := hostview.Annotations(c.copied(), c.RootImage != "")
	if c.RootImage != "" {
		// gVisor's kernel reads an image without the gofer, unless directories are mounted in it.
		if len(c.copied()) == 0 {
			maps.Copy(annotations, c.rootAnnotations())
		}
		mounts = append(append(mounts, identityMounts(root)...), fileMounts(root, c.Files)...)
	}
	mounts = append(mounts, c.volumeMounts()...)
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: c.Hostname,
		Root:     &specs.Root{Path: root},

		Annotations: annotations,
		Process: &specs.Process{
			Args:            seen(guest.InitArgv()),
			Env:             c.Env,
			Cwd:             "/",
			Rlimits:         limits,
			NoNewPrivileges: false,
			Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Mounts: mounts,
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
			},
		},
	}
}

// writeBundle writes the OCI bundle and returns its directory. The directory's name passes limits to RunChild.
func writeBundle(dir string, spec *specs.Spec, limits Limits) (string, error) {
	bundle := filepath.Join(dir, bundleName(limits))
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		return "", err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	return bundle, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600)
}

// runtimeConfig returns gVisor's settings. gVisor keeps its files in the directory state.
func (c Config) runtimeConfig(state string, rootless bool) (*config.Config, error) {
	flags := flag.NewFlagSet("sb-runtime", flag.ContinueOnError)
	config.RegisterFlags(flags)
	overlay := "root:dir=" + c.OverlayDir
	if c.Limits.Disk > 0 {
		overlay += ",size=" + strconv.FormatInt(c.Limits.Disk, 10)
	}
	settings := map[string]string{
		"root":           state,
		"platform":       "systrap",
		"network":        "sandbox", // without one, too: with "none" gVisor forwards no port
		"directfs":       "false",
		"overlay2":       overlay,
		"ignore-cgroups": "true",
		"rootless":       strconv.FormatBool(rootless),
		"host-uds":       "none",
		"log":            os.DevNull,
	}
	for _, name := range sortedKeys(settings) {
		if err := flags.Set(name, settings[name]); err != nil {
			return nil, err
		}
	}
	return config.NewFromFlags(flags)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
