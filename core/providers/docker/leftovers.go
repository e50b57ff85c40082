package docker

import (
	"context"
	"errors"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

var _ core.Sweeper = (*Provider)(nil)

// Leftovers implements core.Sweeper: internal networks and helpers that no sandbox uses.
func (p *Provider) Leftovers(ctx context.Context) ([]core.Leftover, error) {
	e, err := p.connect(ctx)
	if errors.Is(err, engine.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	networks, err := e.unusedNetworks(ctx)
	if err != nil {
		return nil, engine.Classify(ctx, "leftovers", "", err)
	}
	containers, err := e.brokenOff(ctx, fillingAge)
	if err != nil {
		return nil, engine.Classify(ctx, "leftovers", "", err)
	}
	volumes, err := e.unusedHelpers(ctx)
	if err != nil {
		return nil, engine.Classify(ctx, "leftovers", "", err)
	}
	var left []core.Leftover
	for _, n := range networks {
		left = append(left, core.Leftover{Provider: Name, Subject: n.Name, Why: "an internal network without sandboxes"})
	}
	for _, c := range containers {
		left = append(
			left, core.Leftover{Provider: Name, Subject: fillingPrefix + c.ID, Why: "a container of an interrupted " +
				"installation of sb's helper"},
		)
	}
	for _, name := range volumes {
		left = append(left, core.Leftover{Provider: Name, Subject: name, Why: "sb's helper, which no sandbox uses"})
	}
	return left, nil
}

// fillingPrefix distinguishes a container that fills a volume from the volume.
const fillingPrefix = "container "

// Sweep implements core.Sweeper. A leftover that is in use again stays.
func (p *Provider) Sweep(ctx context.Context, leftover core.Leftover) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(leftover.Subject, helperPrefix) && !strings.HasPrefix(leftover.Subject, fillingPrefix) {
		return e.leaveInternal(ctx, leftover.Subject)
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	if id, filling := strings.CutPrefix(leftover.Subject, fillingPrefix); filling {
		_, err = e.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	} else {
		_, err = e.Client.VolumeRemove(ctx, leftover.Subject, client.VolumeRemoveOptions{})
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return engine.Classify(ctx, "sweep", leftover.Subject, err)
}
