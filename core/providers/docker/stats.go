package docker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Stats implements core.StatsReader.
func (p *Provider) Stats(ctx context.Context, id string) (core.Stats, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return core.Stats{}, err
	}
	if sb.State != core.StatePaused {
		if err := notRunning(sb, "stats"); err != nil {
			return core.Stats{}, err
		}
	}
	e, err := p.connect(ctx)
	if err != nil {
		return core.Stats{}, err
	}
	if err := p.learn(ctx, e); err != nil {
		return core.Stats{}, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	answer, err := e.Client.ContainerStats(ctx, containerOf(id), client.ContainerStatsOptions{})
	if err != nil {
		return core.Stats{}, engine.Classify(ctx, "stats", id, err)
	}
	var usage container.StatsResponse
	err = json.NewDecoder(answer.Body).Decode(&usage)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return core.Stats{}, engine.Classify(ctx, "stats", id, err)
	}
	stats := core.Stats{
		//nolint:gosec // 292 years
		Sandbox: id, Time: time.Now(), CPU: time.Duration(usage.CPUStats.CPUUsage.TotalUsage), CPULimit: sb.Spec.CPU,
		//nolint:gosec // below 8 EiB
		Memory: core.Bytes(used(usage.MemoryStats)), MemoryLimit: sb.Spec.Memory, DiskLimit: sb.Spec.Disk,
		Processes: max(int(usage.PidsStats.Current)-1, 0), //nolint:gosec // a number of processes
	}
	if !e.Facts().Grouped || inKata(sb.Runtime) { // the engine reports the whole machine, or Kata's own
		reply, err := p.ask(ctx, id, "stats", wire.Request{Verb: wire.VerbStats})
		if err != nil {
			return core.Stats{}, err
		}
		if reply.Stats != nil {
			stats.CPU, stats.Memory, stats.Processes = reply.Stats.CPU, reply.Stats.Memory, reply.Stats.Processes
		}
	}
	for _, n := range usage.Networks {
		stats.NetReceived += core.Bytes(n.RxBytes) //nolint:gosec // below 8 EiB
		stats.NetSent += core.Bytes(n.TxBytes)     //nolint:gosec // below 8 EiB
	}
	found, err := e.Client.ContainerInspect(ctx, containerOf(id), client.ContainerInspectOptions{Size: true})
	if err == nil && found.Container.SizeRw != nil {
		stats.Disk = core.Bytes(*found.Container.SizeRw)
	}
	return stats, nil
}

// used returns the memory that cannot be reclaimed at once: the inactive page cache does not count. The names are those
// of control groups of version 2 and 1.
func used(m container.MemoryStats) uint64 {
	for _, name := range []string{"inactive_file", "total_inactive_file"} {
		if cache, ok := m.Stats[name]; ok && cache < m.Usage {
			return m.Usage - cache
		}
	}
	return m.Usage
}
