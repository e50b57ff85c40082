package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// factsAge is how long what an engine said of itself is believed. Podman takes a third of a second to say it.
const factsAge = 24 * time.Hour

// facts is what an engine says of itself and launches depend on.
type facts struct {
	Known bool
	// Version is the engine's as in the header of its answers; another one is another engine.
	Version string
	// Arch is Go's name for the processor: "amd64".
	Arch                         string
	CPU, Memory, Processes, Disk bool
	// Swap says that a limit of memory bounds swap, too.
	Swap bool
	// Storage is the driver that keeps what containers write: "overlay2".
	Storage string
	// Grouped says that each container has a control group of its own: the engine can pause it, and tell what it uses.
	Grouped  bool
	Rootless bool
	// CgroupV1 says that control groups are of the old kind.
	CgroupV1 bool
	// Runtime is the one of Runtimes that is taken where nothing else is asked for.
	Runtime  string
	Runtimes []string
	// GPU says that the engine hands NVIDIA's cards out by itself, CDI names them where it does so by their names.
	GPU bool
	CDI []string
}

// learn completes the engine's facts, from what was kept or by asking.
func (p *Provider) learn(ctx context.Context, e *engine) error {
	p.mu.Lock()
	known := e.facts.Known
	p.mu.Unlock()
	if known {
		return nil
	}
	kept := p.keptFacts(e)
	if !kept.Known {
		ctx, cancel := within(ctx, askTimeout)
		defer cancel()
		var err error
		if kept, err = e.ask(ctx); err != nil {
			return classify(ctx, "connect", e.at.String(), err)
		}
		p.keepFacts(e, kept)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.facts.Known { // who was quicker reads what it learned, without the lock
		e.facts = kept
	}
	return nil
}

// cdiKind begins the names that the Container Device Interface has for NVIDIA's cards.
const cdiKind = "nvidia.com/gpu="

// ask lets the engine describe itself.
func (e *engine) ask(ctx context.Context) (facts, error) {
	if e.podman {
		return e.askPodman(ctx)
	}
	answer, err := e.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return facts{}, err
	}
	info := answer.Info
	f := facts{
		Known: true, Version: e.version, Arch: architecture(info.Architecture),
		Runtime: info.DefaultRuntime, CPU: info.CPUCfsQuota, Memory: info.MemoryLimit, Processes: info.PidsLimit, Swap: info.SwapLimit, Grouped: info.CgroupDriver != "none", CgroupV1: info.CgroupVersion == "1",
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
		if device.Source == "cdi" && strings.HasPrefix(device.ID, cdiKind) && device.ID != cdiKind+"all" {
			f.CDI = append(f.CDI, device.ID)
		}
	}
	f.Storage, f.Disk = info.Driver, e.quota(info)
	return f, nil
}

// askPodman asks Podman in its own language: what it says in Docker's leaves out what a rootless one cannot do.
func (e *engine) askPodman(ctx context.Context) (facts, error) {
	response, err := e.libpod(ctx, http.MethodGet, "info")
	if err != nil {
		return facts{}, err
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
		return facts{}, err
	}
	h := info.Host
	f := facts{
		Known: true, Version: e.version, Arch: architecture(h.Arch), Runtime: h.OCIRuntime.Name, Rootless: h.Security.Rootless, CgroupV1: h.CgroupVersion == "v1",
		// It leaves the runtime that a request names out of account, without a word (4.3), so there is only its own.
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
	f.Swap = !f.CgroupV1 || h.SwapTotal == 0 // version 1 counts swap only where the kernel was told to
	return f, nil
}

// quota says whether the engine can bound what a container writes.
func (e *engine) quota(info system.Info) bool {
	switch info.Driver {
	case "btrfs", "zfs":
		return true
	case "overlay2":
		// Only a look at the mount tells, so only an engine on this machine.
		return strings.HasPrefix(e.at.Host, "unix://") && projectQuota("/proc/self/mountinfo", info.DockerRootDir)
	}
	return false
}

// projectQuota says whether dir lies on an XFS file system that is mounted with project quotas.
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

// architecture is Go's name for what uname calls a processor.
func architecture(name string) string {
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

func (p *Provider) factsFile(e *engine) string {
	sum := sha256.Sum256([]byte(e.at.Host))
	return filepath.Join(p.opts.CacheDir, Name, hex.EncodeToString(sum[:8])+".json")
}

// keptFacts returns what was kept of the same engine not long ago.
func (p *Provider) keptFacts(e *engine) facts {
	if p.opts.CacheDir == "" {
		return facts{}
	}
	file := p.factsFile(e)
	info, err := os.Stat(file)
	if err != nil || time.Since(info.ModTime()) > factsAge {
		return facts{}
	}
	var f facts
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &f) != nil || f.Version != e.version {
		return facts{}
	}
	return f
}

// keepFacts writes them down; that it cannot costs time only.
func (p *Provider) keepFacts(e *engine, f facts) {
	if p.opts.CacheDir == "" {
		return
	}
	file := p.factsFile(e)
	text, err := json.Marshal(f)
	if err != nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	temporary := fmt.Sprintf("%s.%d", file, os.Getpid())
	if os.WriteFile(temporary, text, 0o600) != nil || os.Rename(temporary, file) != nil {
		_ = os.Remove(temporary)
	}
}
