package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

var _ core.Sweeper = (*Provider)(nil)

// Leftovers implements core.Sweeper: internal networks, helpers and volumes of journals that no sandbox uses.
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
	boxes, err := e.unusedBoxes(ctx, fillingAge)
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
	for _, name := range boxes {
		left = append(left, core.Leftover{
			Provider: Name, Subject: boxPrefix + name, Why: "the journal of a sandbox that was removed without sb",
		})
	}
	return left, nil
}

const (
	// fillingPrefix distinguishes a container that fills a volume from the volume.
	fillingPrefix = "container "
	// boxPrefix distinguishes a volume with a journal from a network.
	boxPrefix = "volume "
)

// unusedBoxes lists the volumes with labelBox that are older than age and that no container uses. Docker keeps the
// volume of a container that was removed by hand. Podman's API does not label such volumes.
func (e containers) unusedBoxes(ctx context.Context, age time.Duration) ([]string, error) {
	listed, err := e.Client.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("label", labelBox+"="+version)})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, v := range listed.Items {
		if created := parseTime(v.CreatedAt); !created.IsZero() && time.Since(created) >= age {
			names = append(names, v.Name)
		}
	}
	return e.withoutContainer(ctx, names)
}

// Sweep implements core.Sweeper. A leftover that is in use again stays.
func (p *Provider) Sweep(ctx context.Context, leftover core.Leftover) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	volume, box := strings.CutPrefix(leftover.Subject, boxPrefix)
	id, filling := strings.CutPrefix(leftover.Subject, fillingPrefix)
	if !strings.HasPrefix(leftover.Subject, helperPrefix) && !filling && !box {
		return e.leaveInternal(ctx, leftover.Subject)
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	if filling {
		_, err = e.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	} else {
		_, err = e.Client.VolumeRemove(ctx, volume, client.VolumeRemoveOptions{})
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return engine.Classify(ctx, "sweep", leftover.Subject, err)
}
