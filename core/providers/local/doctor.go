//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Statuses of a finding.
const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusError   = "error"
)

// Diagnose implements core.Doctor.
func (p *Provider) Diagnose(ctx context.Context) []core.Finding {
	findings := []core.Finding{p.programFinding(), p.namespaceFinding(ctx)}
	for _, dir := range []struct{ name, path, variable string }{
		{"state directory", p.opts.StateDir, "XDG_STATE_HOME"},
		{"cache directory", p.opts.CacheDir, "XDG_CACHE_HOME"},
	} {
		findings = append(findings, dirFinding(dir.name, dir.path, dir.variable))
	}
	if err := p.checkCacheDir("doctor"); err != nil {
		findings = append(findings, core.Finding{
			Name: "execution of written programs", Status: statusError, Detail: err.Error(), Fix: core.HintOf(err),
		})
	}
	findings = append(findings, groupFinding(p.store.GroupName(fmt.Sprintf("doctor-%d", os.Getpid()))), kernelFinding())
	findings = append(findings, p.damageFindings()...)
	findings = append(findings, p.spareFindings()...)
	if p.opts.HostOnly {
		return findings
	}
	findings = append(findings, p.imageFindings(ctx)...)
	return append(findings, p.volumeFindings(ctx)...)
}

// spareFindings counts the spares. There is no finding if the configuration has none and none is left.
func (p *Provider) spareFindings() []core.Finding {
	const name = "spares"
	spares, err := p.store.Spares()
	if err != nil {
		return []core.Finding{{Name: name, Status: statusError, Detail: err.Error()}}
	}
	if len(spares) == 0 && p.opts.Spares == 0 {
		return nil
	}
	return []core.Finding{{
		Name: name, Status: statusOK,
		Detail: fmt.Sprintf("%d prepared for the next launches, local.spares is %d", len(spares), p.opts.Spares),
	}}
}

// volumeFindings reads the record and the directory of each volume.
func (p *Provider) volumeFindings(ctx context.Context) []core.Finding {
	const name = "volumes"
	shelf := p.store.Volumes()
	names, err := shelf.Names()
	if err != nil {
		return []core.Finding{{Name: name, Status: statusError, Detail: err.Error()}}
	}
	sound := 0
	var damaged []core.Finding
	for _, volume := range names {
		if ctx.Err() != nil {
			break
		}
		err := p.checkVolume(volume)
		if errors.Is(err, fs.ErrNotExist) {
			if _, there := os.Lstat(p.store.VolumeDir(volume)); errors.Is(there, fs.ErrNotExist) {
				continue // it was removed after Names
			}
		}
		if err == nil {
			sound++
			continue
		}
		damaged = append(damaged, core.Finding{
			Name: "volume " + volume, Status: statusError, Detail: err.Error(),
			Fix: fmt.Sprintf("see its files in %s, or remove it: sb volume rm %s", p.store.VolumeDir(volume), volume),
		})
	}
	finding := core.Finding{Name: name, Status: statusOK, Detail: fmt.Sprintf("%d sound", sound)}
	if ctx.Err() != nil {
		finding.Status, finding.Detail = statusWarning, finding.Detail+"; the time was too short for the others"
	}
	if left, err := shelf.Abandoned(); err == nil && len(left) > 0 {
		finding.Status, finding.Detail = statusWarning, fmt.Sprintf("%s, %d leftovers", finding.Detail, len(left))
		finding.Fix = "sb prune"
	}
	return append([]core.Finding{finding}, damaged...)
}

// checkVolume returns the reason why a volume cannot be used.
func (p *Provider) checkVolume(name string) error {
	dir, err := p.store.Volumes().Read(name, nil)
	if err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(dir, store.VolumeData))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", filepath.Join(dir, store.VolumeData))
	}
	return nil
}

// imageFindings verifies the stored images.
func (p *Provider) imageFindings(ctx context.Context) []core.Finding {
	const name = "images"
	failed := func(err error) []core.Finding {
		return []core.Finding{{Name: name, Status: statusError, Detail: err.Error(), Fix: core.HintOf(err)}}
	}
	images, err := p.openImages()
	if err != nil {
		return failed(err)
	}
	sound, damage, err := images.Check(ctx)
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	var size core.Bytes
	for _, i := range sound {
		size += core.Bytes(i.Size)
	}
	finding := core.Finding{Name: name, Status: statusOK, Detail: fmt.Sprintf("%d sound, %s", len(sound), size)}
	if ctx.Err() != nil {
		finding.Status, finding.Detail = statusWarning, finding.Detail+"; the time was too short for the others"
	}
	if left, err := images.Leftovers(ctx); err == nil && len(left) > 0 {
		finding.Status, finding.Detail = statusWarning, fmt.Sprintf("%s, %d leftovers", finding.Detail, len(left))
		finding.Fix = "sb prune"
	}
	findings := []core.Finding{finding}
	for _, err := range damage {
		findings = append(findings, core.Finding{
			Name: name, Status: statusError, Detail: err.Error(), Fix: core.HintOf(err),
		})
	}
	return findings
}

// damageFindings names each damaged file that describes a sandbox. An operation that reads a damaged file reports it,
// too.
func (p *Provider) damageFindings() []core.Finding {
	var findings []core.Finding
	ids, err := p.store.IDs()
	if err != nil {
		return nil // the finding of the state directory has the error
	}
	for _, id := range ids {
		lease, leaseErr := p.store.ReadLease(id)
		state, stateErr := p.store.ReadState(id)
		_, groupDamage, groupErr := p.readGroup(id)
		for _, damage := range []error{lease.Damage, leaseErr, state.Damage, stateErr, groupDamage, groupErr} {
			if store.IsDamage(damage) {
				findings = append(findings, core.Finding{
					Name: "sandbox " + id, Status: statusWarning, Detail: damage.Error(), Fix: "see the rest with: sb inspect " +
						id,
				})
			}
		}
	}
	return findings
}

func (p *Provider) programFinding() core.Finding {
	programs, err := p.usable()
	if err != nil {
		return core.Finding{Name: "sb-runtime", Status: statusError, Detail: err.Error(), Fix: core.HintOf(err)}
	}
	return core.Finding{Name: "sb-runtime", Status: statusOK, Detail: programs.runtime}
}

// dirFinding reports whether a directory, or the nearest one above it that exists, is writable.
func dirFinding(name, path, variable string) core.Finding {
	dir := existing(path)
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return core.Finding{
			Name: name, Status: statusError, Detail: fmt.Sprintf("%s: %s", dir, err),
			Fix: "make it writable, or set " + variable + " to a directory that is",
		}
	}
	return core.Finding{Name: name, Status: statusOK, Detail: path}
}

// groupFinding reports the controllers that can limit a sandbox. It makes a trial group with the given name, because
// file modes do not show the rights to control groups.
func groupFinding(group string) core.Finding {
	const name = "control groups"
	without := core.Finding{
		Name: name, Status: statusWarning,
		Detail: "none can be created, so memory is measured every 50 ms and --cpu is rounded up to whole cores",
	}
	// These limits bound nothing. The probe checks whether each controller accepts one.
	most := cgroup.Limits{CPU: float64(runtime.NumCPU()), Memory: 1 << 40, Tasks: 1 << 15}
	controllers, err := cgroup.Try(group, most)
	if err != nil {
		without.Detail += ": " + err.Error()
		if group, err := cgroup.Find(group); err == nil && group.Version == 2 && os.Geteuid() != 0 {
			without.Fix = "start sb in a group of your own: systemd-run --user --scope -p Delegate=yes sb launch"
		}
		return without
	}
	return core.Finding{Name: name, Status: statusOK, Detail: strings.Join(controllers, ", ")}
}

func kernelFinding() core.Finding {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return core.Finding{Name: "kernel", Status: statusWarning, Detail: err.Error()}
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err == nil && (major < 5 || major == 5 && minor < 12) {
		return core.Finding{Name: "kernel", Status: statusError, Detail: "Linux " + release +
			" lacks mount_setattr", Fix: "use Linux 5.12 or newer"}
	}
	return core.Finding{Name: "kernel", Status: statusOK, Detail: "Linux " + release}
}
