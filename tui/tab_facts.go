package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/graph"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// scroller holds the scroll position of a text.
type scroller struct{ above, h, total int }

func (sc *scroller) move(by int) {
	sc.above = min(max(sc.above+by, 0), max(0, sc.total-sc.h))
}

// cutTo returns the visible part of lines.
func (sc *scroller) cutTo(lines []string, h int) []string {
	sc.h, sc.total = h, len(lines)
	sc.move(0)
	return lines[sc.above:min(sc.above+h, len(lines))]
}

// facts draws pairs of a name and a value. It skips pairs without a value.
func facts(s *theme.Styles, w int, pairs ...string) []string {
	const name = 14
	var lines []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		for j, piece := range guesttext.Wrap(safe(pairs[i+1]), max(1, w-name)) {
			if j > 0 {
				lines = append(lines, screen.Blanks(name)+piece)
				continue
			}
			lines = append(lines, s.Faint.On(screen.Fit(pairs[i], name))+s.Text.On(piece))
		}
	}
	return lines
}

// network holds a sandbox's denied connections and published ports.
type network struct {
	known   bool
	denials []core.Denial
	err     error

	tunnels    []core.Tunnel
	tunnelsErr error
}

// publishes reports whether a sandbox has published ports.
func publishes(box core.Sandbox) bool { return len(box.Ports)+len(box.Spec.Ports) > 0 }

// deniedTarget formats the target of a denied connection.
func deniedTarget(d core.Denial) string {
	target := orElse(d.Name, d.Address)
	if d.Port != 0 {
		target = net.JoinHostPort(target, strconv.Itoa(d.Port))
	}
	return target + " (" + d.Protocol + ")"
}

// denied draws the denied connections, the latest first.
func (l network) denied(s *theme.Styles, w int, e *entry, now time.Time) []string {
	lines := []string{s.Header.On("DENIED")}
	switch {
	case l.err != nil:
		return append(lines, problem(s, l.err, w)...)
	case !e.from.caps.Can(core.CapDenials):
		return append(lines, s.Faint.On(screen.Cut("provider "+e.box.Provider+" does not report denied connections", w)))
	case !l.known && running(e):
		return append(lines, s.Faint.On("…"))
	case len(l.denials) == 0:
		return append(lines, s.Faint.On("no denied connections"))
	}
	for _, d := range l.denials {
		count := screen.FitRight(strconv.Itoa(d.Count)+"×", 6) + " " + screen.FitRight(format.Since(d.Time, now), 7) +
			" ago  "
		why := d.Why
		if d.Name != "" && d.Address != "" {
			why = strings.TrimSpace(d.Address + " " + why)
		}
		target := s.Bad.On(screen.Cut(safe(deniedTarget(d)), max(1, w-screen.Width(count))))
		lines = append(lines, s.Faint.On(count)+target+"  "+s.Faint.On(safe(why)))
	}
	return lines
}

// networkLines draws a sandbox's ports, policy, denied connections and traffic.
func networkLines(s *theme.Styles, w int, e *entry, known network, now time.Time) []string {
	lines := []string{s.Header.On("PORTS")}
	switch {
	case !publishes(e.box):
		lines = append(lines, s.Faint.On("no published ports"))
	case known.tunnelsErr != nil:
		lines = append(lines, problem(s, known.tunnelsErr, w)...)
	case len(known.tunnels) == 0:
		for _, p := range e.box.Ports {
			lines = append(lines, s.Text.On(fmt.Sprintf("%5d → ", p.Sandbox))+s.Info.On(safe("http://"+p.Address)))
		}
	}
	for _, t := range known.tunnels {
		lines = append(lines, s.Text.On(fmt.Sprintf("%5d → ", t.Port))+s.Info.On(screen.Cut(safe(tunnelURL(t)), max(1, w-8))))
	}
	policy := policyText(e.box.Spec.Network)
	lines = append(lines, "", s.Header.On("POLICY"))
	lines = append(lines, facts(s, w,
		"outbound", orElse(policy, "the provider's default"), "inbound", strings.Join(e.box.Spec.Inbound, ", "))...)
	lines = append(lines, "")
	lines = append(lines, known.denied(s, w, e, now)...)
	lines = append(lines, "", s.Header.On("TRAFFIC"))
	last, ok := e.series.last()
	if !ok {
		return append(lines, s.Faint.On("not measured"))
	}
	lines = append(lines, facts(s, w,
		"received", last.NetReceived.String()+rate(last.received), "sent", last.NetSent.String()+rate(last.sent),
		"measured", format.Since(last.Time, now)+" ago")...)
	values := e.series.values(max(1, w-2), func(x sample) float64 { return x.received + x.sent })
	for _, row := range graph.Area(values, slices.Max(append(values, 1)), min(w, len(values)), 3) {
		lines = append(lines, s.Network.On(row))
	}
	return lines
}

// policyText formats a network policy in one line.
func policyText(network core.Network) string {
	if len(network.Allow) > 0 {
		return string(network.Mode) + ": " + strings.Join(network.Allow, ", ")
	}
	return string(network.Mode)
}

func rate(perSecond float64) string {
	if perSecond < 1 {
		return ""
	}
	return "  " + core.Bytes(perSecond).String() + "/s"
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// statsLines draws graphs of a sandbox's resource use over time.
func statsLines(s *theme.Styles, w, h int, e *entry, now time.Time) []string {
	last, ok := e.series.last()
	if !ok {
		return []string{s.Faint.On("not measured yet")}
	}
	limit := func(values []float64, most float64) float64 {
		if most > 0 {
			return most
		}
		return slices.Max(append(values, 1))
	}
	rows := max(1, (h-5)/4)
	var lines []string
	draw := func(p theme.Paint, title string, most float64, of func(sample) float64) {
		values := e.series.values(w, of)
		lines = append(lines, s.Strong.On(screen.Cut(title, w)))
		for _, row := range graph.Area(values, limit(values, most), min(w, len(values)), rows) {
			lines = append(lines, p.On(row))
		}
	}
	cpu := fmt.Sprintf("CPU %.1f%%", last.cpu)
	if last.CPULimit > 0 {
		cpu += fmt.Sprintf(" of %g cores", last.CPULimit)
	}
	if last.Frozen {
		cpu += " · frozen while idle"
	}
	draw(s.Processor, cpu, 100*last.CPULimit, func(x sample) float64 { return x.cpu })
	draw(s.Memory, "Memory "+format.Used(last.Memory, last.MemoryLimit), float64(last.MemoryLimit),
		func(x sample) float64 { return x.memory })
	draw(s.Text, "Disk "+format.Used(last.Disk, last.DiskLimit), float64(last.DiskLimit),
		func(x sample) float64 { return x.disk })
	draw(s.Network, fmt.Sprintf("Network in %s/s, out %s/s", core.Bytes(last.received), core.Bytes(last.sent)), 0,
		func(x sample) float64 { return x.received + x.sent })
	summary := fmt.Sprintf("%s · %s of CPU time · measured %s ago, %d samples",
		format.Plural(last.Processes, "process", "processes"), last.CPU.Round(time.Millisecond),
		format.Since(last.Time, now), len(e.series))
	return append(lines, s.Faint.On(screen.Cut(summary, w)))
}

// specLines draws all facts about a sandbox, and its spec.
func specLines(s *theme.Styles, w int, e *entry, now time.Time) []string {
	b := e.box
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05") + " (" + format.Since(t, now) + " ago)"
	}
	expires := ""
	if !b.Expires.IsZero() {
		expires = b.Expires.Local().Format("2006-01-02 15:04:05") + " (in " + format.Span(b.Expires.Sub(now)) + ")"
	}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(b.Labels)) {
		labels = append(labels, k+"="+b.Labels[k])
	}
	owner := b.Lease.Owner.Actor
	if b.Lease.Owner.User != "" {
		owner += " by " + b.Lease.Owner.User
	}
	if b.Lease.Owner.PID != 0 {
		owner += fmt.Sprintf(", process %d on %s", b.Lease.Owner.PID, b.Lease.Owner.Host)
	}
	cost := costText(spent(e, now))
	if b.Cost != nil && b.Cost.PerHour > 0 {
		cost += fmt.Sprintf(" so far, %.2f %s per hour", b.Cost.PerHour, b.Cost.Currency)
	}
	lines := facts(s, w,
		"id", b.ID, "name", b.Name, "provider", b.Provider, "app", b.App, "state", stateWord(b), "reason", b.Message,
		"image", b.Image, "gpu", b.GPU.String(), "labels", strings.Join(labels, " "),
		"created", at(b.Created), "started", at(b.Started), "ended", at(b.Ended), "expires", expires,
		"last active", at(b.LastActive), "cost", cost, "owner", owner)
	lines = append(lines, "", s.Header.On("SPEC"))
	text, err := json.MarshalIndent(b.Spec, "", "  ")
	if err != nil {
		return append(lines, problem(s, err, w)...)
	}
	for l := range strings.SplitSeq(string(text), "\n") {
		name, value, found := strings.Cut(safe(l), `": `)
		if found {
			l = s.Faint.On(name+`":`) + " " + s.Text.On(value)
		} else {
			l = s.Faint.On(safe(l))
		}
		lines = append(lines, guesttext.Wrap(l, max(1, w))...)
	}
	return lines
}

// maxHistory is the number of operations shown.
const maxHistory = 500

// historyLines draws the operations on a sandbox, the newest first.
func historyLines(s *theme.Styles, w int, records []service.AuditRecord, err error, loaded bool) []string {
	switch {
	case err != nil:
		return problem(s, err, w)
	case !loaded:
		return []string{s.Faint.On("…")}
	case len(records) == 0:
		return []string{s.Faint.On("no operations yet")}
	}
	lines := []string{s.Header.On(screen.Fit("TIME", 20) + screen.Fit("BY", 10) + screen.Fit(
		"OPERATION", 11,
	) + screen.Fit("RESULT", 14) +
		screen.Fit("TOOK", 8) + "DETAILS")}
	for _, r := range slices.Backward(records) {
		p := s.Off
		if r.Result != "ok" {
			p = s.Bad
		}
		details := orElse(argsText(r.Args), r.Error)
		when, took := r.Time.Local().Format("2006-01-02 15:04:05"), r.Duration.Round(time.Millisecond).String()
		lines = append(lines, s.Faint.On(screen.Fit(when, 20)+screen.Fit(safe(r.Actor), 9)+" ")+
			s.Text.On(screen.Fit(safe(r.Op), 11))+p.On(screen.Fit(safe(r.Result), 14))+s.Faint.On(screen.Fit(took, 8))+
			s.Text.On(screen.Cut(safe(details), max(0, w-63))))
	}
	return lines
}

// argsText formats the arguments of an operation in one line.
func argsText(args map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(args)) {
		switch v := args[k].(type) {
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				words[i] = fmt.Sprint(word)
			}
			parts = append(parts, strings.Join(words, " "))
		case map[string]any:
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", k, v))
		}
	}
	return strings.Join(parts, " ")
}
