package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Statuses of a finding.
const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusError   = "error"
)

// Diagnose implements core.Doctor. It reports the chosen engine, the reasons against others, and the engine's
// capabilities.
func (p *Provider) Diagnose(ctx context.Context) []core.Finding {
	findings := p.found(ctx)
	e, err := p.connect(ctx)
	if err == nil {
		err = e.Relearn(ctx, p.factsDir())
	}
	if err != nil {
		detail := err.Error()
		if errors.Is(err, engine.ErrNone) {
			detail += p.looked()
		}
		return append(findings, core.Finding{Name: "engine", Status: statusError, Detail: detail, Fix: core.HintOf(err)})
	}
	detail := fmt.Sprintf("%s at %s (%s), API %s", e.Version, e.At, e.At.Why, e.Client.ClientVersion())
	if e.Facts().Rootless {
		detail += ", rootless"
	}
	refused := p.refuseRuntime(e)
	if p.opts.Runtime != "" && refused == nil {
		detail += ", runtime " + p.opts.Runtime
	}
	findings = append(findings, core.Finding{Name: "engine", Status: statusOK, Detail: detail})
	if refused != nil {
		findings = append(
			findings, core.Finding{Name: "runtime", Status: statusError, Detail: refused.Error(), Fix: core.HintOf(refused)},
		)
	}
	findings = append(findings, p.limitFindings(e)...)
	guest, err := p.guestPath(e.Facts().Arch)
	if err != nil {
		return append(
			findings, core.Finding{Name: "sb-guest", Status: statusError, Detail: err.Error(), Fix: core.HintOf(err)},
		)
	}
	return append(findings, core.Finding{Name: "sb-guest", Status: statusOK, Detail: guest})
}

// found reports the state of each place that may have an engine.
func (p *Provider) found(ctx context.Context) []core.Finding {
	places, chosen, err := p.search().Places()
	if err != nil {
		return []core.Finding{{Name: "search", Status: statusError, Detail: err.Error(), Fix: core.HintOf(err)}}
	}
	var findings []core.Finding
	for _, at := range places {
		f := core.Finding{Name: at.Why, Status: statusOK, Detail: at.String()}
		if path, ok := strings.CutPrefix(at.Host, "unix://"); ok && !chosen {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				continue
			}
			if at.Socket() && !engine.Writable(path) {
				f.Status, f.Detail = statusWarning, "this user has no access to "+path
				f.Fix = engine.ClosedHint
				findings = append(findings, f)
				continue
			}
		}
		e, err := engine.Reach(ctx, at)
		if err != nil {
			f.Status, f.Detail, f.Fix = statusWarning, at.String()+": "+err.Error(), core.HintOf(err)
		} else {
			f.Detail = e.Version + " at " + at.String()
			_ = e.Client.Close()
		}
		findings = append(findings, f)
	}
	return findings
}

// looked names the places in which no engine was found.
func (p *Provider) looked() string {
	places, _, err := p.search().Places()
	if err != nil || len(places) == 0 || slices.ContainsFunc(places, engine.Place.Socket) {
		return "" // or an engine exists that this user may not use, and the error names it
	}
	hosts := make([]string, len(places))
	for i, at := range places {
		hosts[i] = at.String()
	}
	return " at " + strings.Join(hosts, ", ")
}

// limitFindings reports the limits that the engine and its runtime enforce.
func (p *Provider) limitFindings(e containers) []core.Finding {
	var held, missing []string
	caps := p.Capabilities()
	for _, limit := range []struct {
		as   core.Capability
		name string
	}{{core.CapCPU, "cpu"}, {core.CapMemory, "memory"}, {core.CapProcesses, "processes"}, {core.CapDisk, "disk"}} {
		if caps.Can(limit.as) {
			held = append(held, limit.name)
		} else {
			missing = append(missing, limit.name)
		}
	}
	findings := []core.Finding{{Name: "limits", Status: statusOK, Detail: strings.Join(held, ", ")}}
	for _, name := range missing {
		findings = append(findings, core.Finding{Name: "limits", Status: statusWarning, Detail: "no limit of " +
			name, Fix: limitHint(e, name)})
	}
	return findings
}
