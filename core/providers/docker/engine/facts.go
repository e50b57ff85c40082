package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// Facts describes an engine, as launches need it.
type Facts struct {
	Known bool
	// Version is Engine.Version. A different version invalidates the facts.
	Version string
	// Arch is Go's name for the processor: "amd64".
	Arch                         string
	CPU, Memory, Processes, Disk bool
	// Swap reports that a memory limit bounds swap, too.
	Swap bool
	// Storage is the driver of the containers' writable layers: "overlay2".
	Storage string
	// Grouped reports that each container has its own control group: the engine can pause it and measure its usage.
	Grouped  bool
	Rootless bool
	// CgroupV1 reports control groups of version 1.
	CgroupV1 bool
	// Runtime is the default of Runtimes.
	Runtime  string
	Runtimes []string
	// GPU reports NVIDIA's own runtime. CDI has the names of cards, for an engine that selects them by name.
	GPU bool
	CDI []string
}

// Learn loads the engine's facts, from the cache or with a request to the engine. cacheDir "" disables the cache.
func (e *Engine) Learn(ctx context.Context, cacheDir string) error {
	if e.Facts().Known {
		return nil
	}
	kept := e.cached(cacheDir)
	if !kept.Known {
		return e.Relearn(ctx, cacheDir)
	}
	e.setFacts(kept)
	return nil
}

// Relearn loads the engine's facts with a request to the engine, and replaces those in the cache.
func (e *Engine) Relearn(ctx context.Context, cacheDir string) error {
	ctx, cancel := Within(ctx, AskTimeout)
	defer cancel()
	asked, err := e.Ask(ctx)
	if err != nil {
		return Classify(ctx, "connect", e.At.String(), err)
	}
	e.cache(cacheDir, asked)
	e.setFacts(asked)
	return nil
}

func (e *Engine) setFacts(f Facts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts = f
}

// Facts returns the facts. They are not Known before Learn or Relearn has succeeded once.
func (e *Engine) Facts() Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.facts
}

// CDIKind is the prefix of names of NVIDIA's cards in the Container Device Interface.
const CDIKind = "nvidia.com/gpu="

// Ask requests the engine's facts, without the cache.
func (e *Engine) Ask(ctx context.Context) (Facts, error) {
	if e.Podman {
		return e.askPodman(ctx)
	}
	answer, err := e.Client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Facts{}, err
	}
	info := answer.Info
	f := Facts{
		Known: true, Version: e.Version, Arch: Architecture(info.Architecture),
		Runtime: info.DefaultRuntime, CPU: info.CPUCfsQuota, Memory: info.MemoryLimit, Processes: info.PidsLimit,
		Swap: info.SwapLimit, Grouped: info.CgroupDriver != "none", CgroupV1: info.CgroupVersion == "1",
	}
	for _, option := range info.SecurityOptions {
		f.Rootless = f.Rootless || strings.Contains(option, "rootless")
	}
	for name := range info.Runtimes {
		f.Runtimes = append(f.Runtimes, name)
		f.GPU = f.GPU || strings.HasPrefix(name, "nvidia")
	}
	slices.Sort(f.Runtimes)
	for _, device := range info.DiscoveredDevices {
		if device.Source == "cdi" && strings.HasPrefix(device.ID, CDIKind) && device.ID != CDIKind+"all" {
			f.CDI = append(f.CDI, device.ID)
		}
	}
	f.Storage, f.Disk = info.Driver, e.quota(info)
	return f, nil
}

// askPodman uses Podman's own API: its Docker API leaves out the limits of a rootless Podman.
func (e *Engine) askPodman(ctx context.Context) (Facts, error) {
	response, err := e.libpod(ctx, http.MethodGet, "info")
	if err != nil {
		return Facts{}, err
	}
	var info struct {
		Host struct {
			Arch              string
			CgroupVersion     string
			CgroupControllers []string
			SwapTotal         int64
			Security          struct{ Rootless bool }
			OCIRuntime        struct{ Name string }
		}
	}
	err = json.NewDecoder(response.Body).Decode(&info)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return Facts{}, err
	}
	h := info.Host
	f := Facts{
		Known: true, Version: e.Version, Arch: Architecture(h.Arch), Runtime: h.OCIRuntime.Name,
		Rootless: h.Security.Rootless, CgroupV1: h.CgroupVersion == "v1",
		// Podman (4.3) ignores the runtime of a request, so there is only its own.
		Runtimes: []string{h.OCIRuntime.Name},
	}
	controls := func(name string) bool {
		if f.CgroupV1 {
			return !f.Rootless
		}
		return !f.Rootless || slices.Contains(h.CgroupControllers, name)
	}
	f.CPU, f.Memory, f.Processes = controls("cpu"), controls("memory"), controls("pids")
	f.Grouped = !f.Rootless || !f.CgroupV1
	f.Swap = !f.CgroupV1 || h.SwapTotal == 0 // version 1 counts swap only if the kernel is configured for it
	return f, nil
}

// quota reports whether the engine can limit the disk of a container.
func (e *Engine) quota(info system.Info) bool {
	switch info.Driver {
	case "btrfs", "zfs":
		return true
	case "overlay2":
		// Only the mount shows it, so the engine must be on this machine.
		return strings.HasPrefix(e.At.Host, "unix://") && projectQuota("/proc/self/mountinfo", info.DockerRootDir)
	}
	return false
}

// projectQuota reports whether dir lies on an XFS file system that is mounted with project quotas.
func projectQuota(mountinfo, dir string) bool {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return false
	}
	best, quota := "", false
	for line := range strings.Lines(string(text)) {
		// proc(5): the mount point is the fifth field; type, source and super options follow " - ".
		mount, super, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, options := strings.Fields(mount), strings.Fields(super)
		if !ok || len(fields) < 5 || len(options) < 3 {
			continue
		}
		point := fields[4]
		within := point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
		if within && len(point) >= len(best) {
			best = point
			quota = options[0] == "xfs" && (strings.Contains(options[2], "prjquota") || strings.Contains(options[2], "pquota"))
		}
	}
	return quota
}

// Architecture returns Go's name for uname's name of a processor.
func Architecture(name string) string {
	switch name {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64", "arm64v8":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return name
}
