package docker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

const (
	// readers bounds the containers that List reads at the same time.
	readers = 16
	// creatingAge is the age at which a container that never started counts as left by an interrupted launch.
	creatingAge = 10 * time.Minute
	// maxState bounds the bytes that are read from a container's log.
	maxState = 1 << 20
)

// Get implements core.Provider.
func (p *Provider) Get(ctx context.Context, id string) (core.Sandbox, error) {
	name := containerOf(id)
	if name == "" {
		return core.Sandbox{}, notFound(id)
	}
	sb, err := p.inspect(ctx, name)
	if errors.Is(err, core.KindNotFound) {
		err = notFound(id)
	}
	return sb, err
}

// inspect returns the sandbox in a container, by the container's id or name. KindNotFound: there is no container, or it
// is not a sandbox.
func (p *Provider) inspect(ctx context.Context, name string) (core.Sandbox, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.Sandbox{}, p.absent(err, name)
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	c, err := e.container(ctx, name)
	if err != nil {
		return core.Sandbox{}, engine.Classify(ctx, "get", name, err)
	}
	if c.Config == nil || c.State == nil {
		return core.Sandbox{}, notFound(name)
	}
	d, ok := describe(c.ID, c.Config.Labels, c.Name)
	if !ok {
		return core.Sandbox{}, notFound(name)
	}
	sb := p.sandbox(c.ID, d, c.State.Pid)
	if d.spec.Persist {
		program := "docker"
		if e.Podman {
			program = "podman"
		}
		sb.Direct = program + " exec -it " + namePrefix + d.name + " sh"
	}
	if sb.Runtime = c.Config.Labels[labelRuntime]; sb.Runtime == "" && c.HostConfig != nil {
		sb.Runtime = c.HostConfig.Runtime
	}
	sb.Created = parseTime(c.Created)
	sb.Started = parseTime(c.State.StartedAt)
	sb.Image, sb.ImageID = cmp.Or(sb.Image, c.Config.Image), imageID(c.Image)
	if c.NetworkSettings != nil {
		for port, bindings := range c.NetworkSettings.Ports {
			for _, b := range bindings {
				sb.Ports = append(sb.Ports, core.PortMapping{
					Sandbox: inside(d.spec.Ports, port.Num()), Address: net.JoinHostPort(b.HostIP.String(), b.HostPort),
				})
			}
		}
		sortPorts(sb.Ports)
	}
	finished := parseTime(c.State.FinishedAt)
	if renewed := sb.Started.Add(time.Duration(d.spec.Timeout)); d.spec.Timeout > 0 && !finished.IsZero() &&
		sb.Started.After(finished) {
		// It was started again, which no label records.
		sb.Expires, sb.Lease.Expires = renewed, renewed
	}
	p.settle(ctx, e, &sb, status{
		state: string(c.State.Status), oom: c.State.OOMKilled, code: c.State.ExitCode, finished: finished,
		fault: c.State.Error,
	})
	return sb, nil
}

// container returns a container by its id or name. Podman fails for a container that is just ending, so the request is
// repeated.
func (e containers) container(ctx context.Context, name string) (container.InspectResponse, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		found, err := e.Client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		if err == nil || !e.Podman || !errdefs.IsInternal(err) || time.Since(begin) > endingGrace {
			return found.Container, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return found.Container, err
		}
	}
}

// endingGrace bounds the time in which Podman fails for an ending container.
const endingGrace = 3 * time.Second

// imageID returns the id of a container's image as "sha256:…". Podman leaves the prefix out.
func imageID(id string) string {
	if id == "" || strings.Contains(id, ":") {
		return id
	}
	return "sha256:" + id
}

// absent converts the error for a missing engine to KindNotFound.
func (p *Provider) absent(err error, name string) error {
	if errors.Is(err, engine.ErrNone) {
		return notFound(name)
	}
	return err
}

// sandbox returns the sandbox that a container's labels describe, and stores the facts for calls. pid is its first
// process, or 0.
func (p *Provider) sandbox(container string, d described, pid int) core.Sandbox {
	id := idOf(container)
	p.knownMu.Lock()
	if pid == 0 {
		pid = p.known[id].pid
	}
	p.known[id] = known{
		container: container, pid: pid, dir: d.dir, protocol: d.protocol, key: d.key, actor: d.lease.Owner.Actor,
	}
	p.knownMu.Unlock()
	d.spec.Name, d.spec.App = d.name, d.app
	return core.Sandbox{
		ID: id, Name: d.name, Provider: Name, App: d.app, Image: cmp.Or(d.spec.Image, d.spec.Snapshot), GPU: d.spec.GPU,
		Labels: d.spec.Labels,
		Spec:   d.spec, Expires: d.lease.Expires, Lease: d.lease,
	}
}

// status is a container's state in the engine.
type status struct {
	state    string
	oom      bool
	code     int
	finished time.Time
	fault    string
}

// settle sets the sandbox's state from the engine. The reason and the time of its end come from the last line of its
// first process. reported is false when a running one has written no line since its start.
func (p *Provider) settle(ctx context.Context, e containers, sb *core.Sandbox, s status) (reported bool) {
	switch s.state {
	case "running", "paused", "restarting", "stopping":
		sb.State = core.StateRunning
		if s.state == "paused" {
			sb.State = core.StatePaused
		}
		// Its lifetime may have changed since its launch.
		last, ok := lastState(ctx, e, sb.ID)
		if !ok || last.State != core.StateRunning && last.State != core.StatePaused {
			return false
		}
		sb.Expires = last.Expires
		sb.Lease.Renewed = sb.Lease.Renewed && !last.Fixed
		if last.State == core.StatePaused {
			sb.State = core.StatePaused
		}
		return true
	case "created", "configured", "initialized":
		sb.State = core.StateCreating
		if s.fault != "" || sb.Lease.Owner.Gone() || time.Since(sb.Created) > creatingAge {
			sb.State, sb.Reason, sb.Message = core.StateFailed, core.ReasonLaunch, cmp.Or(s.fault, "its launch was interrupted")
		}
		return true
	}
	sb.Ended = s.finished
	last, ok := lastState(ctx, e, sb.ID)
	switch {
	case ok && last.State != core.StateRunning && last.State != core.StatePaused:
		sb.State, sb.Reason, sb.Message = last.State, last.Reason, last.Message
		sb.ExitCode, sb.Expires = last.ExitCode, last.Expires
		sb.Ended = last.Time
	case s.oom:
		sb.State, sb.Reason, sb.Message = core.StateFailed, core.ReasonMemory, fmt.Sprintf(
			"memory use exceeded the limit of %s", sb.Spec.Memory,
		)
	default:
		sb.State, sb.Reason = core.StateLost, core.ReasonCrash
		sb.Message = fmt.Sprintf(
			"the container exited with code %d without a reason: it or the engine was killed", s.code,
		)
	}
	if sb.Spec.Persist && sb.State != core.StateStopped {
		// The container keeps its files, whatever the reason for its end.
		sb.State = core.StateStopped
		sb.Message += "; its files are kept"
	}
	return true
}

// lastState returns the last state that a container's first process wrote.
func lastState(ctx context.Context, e containers, id string) (wire.State, bool) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	logs, err := e.Client.ContainerLogs(ctx, containerOf(id), client.ContainerLogsOptions{ShowStdout: true, Tail: "1"})
	if err != nil {
		return wire.State{}, false
	}
	defer func() { _ = logs.Close() }()
	text := &limited{left: maxState}
	if _, err := stdcopy.StdCopy(text, &limited{}, logs); err != nil && len(text.data) == 0 {
		return wire.State{}, false
	}
	lines := bytes.Split(bytes.TrimSpace(text.data), []byte("\n"))
	var state wire.State
	err = json.Unmarshal(lines[len(lines)-1], &state)
	return state, err == nil && state.State != ""
}

// limited is a writer that keeps the first bytes of its input.
type limited struct {
	data []byte
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.data = append(l.data, p[:n]...)
	l.left -= n
	return len(p), nil
}

// List implements core.Provider. Without an installed engine, there are no sandboxes.
func (p *Provider) List(ctx context.Context) ([]core.Sandbox, error) {
	e, err := p.connect(ctx)
	if errors.Is(err, engine.ErrNone) {
		return []core.Sandbox{}, nil
	}
	if err != nil {
		return nil, err
	}
	return p.list(ctx, e, make(client.Filters).Add("label", labelVersion))
}

func (p *Provider) list(ctx context.Context, e containers, filters client.Filters) ([]core.Sandbox, error) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, engine.Classify(ctx, "list", "", err)
	}
	sandboxes := make([]core.Sandbox, 0, len(found.Items))
	slots := make(chan struct{}, readers)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range found.Items {
		d, ok := describe(c.ID, c.Labels, c.Names...)
		if !ok {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			sb := p.summary(ctx, e, c, d)
			mu.Lock()
			defer mu.Unlock()
			sandboxes = append(sandboxes, sb)
		})
	}
	wg.Wait()
	return sandboxes, nil
}

// summary converts one entry of a listing to a sandbox.
func (p *Provider) summary(ctx context.Context, e containers, c container.Summary, d described) core.Sandbox {
	state := string(c.State)
	switch state {
	case "running", "paused":
	default:
		// The listing lacks the reason and the time of the end.
		if sb, err := p.inspect(ctx, c.ID); err == nil {
			return sb
		}
	}
	sb := p.sandbox(c.ID, d, 0)
	sb.Created = time.Unix(c.Created, 0).UTC()
	sb.Started = sb.Created
	sb.Image = cmp.Or(sb.Image, c.Image)
	for _, port := range c.Ports {
		if port.PublicPort != 0 {
			sb.Ports = append(sb.Ports, core.PortMapping{
				Sandbox: inside(d.spec.Ports, port.PrivatePort),
				Address: net.JoinHostPort(port.IP.String(), strconv.Itoa(int(port.PublicPort))),
			})
		}
	}
	sortPorts(sb.Ports)
	if !p.settle(ctx, e, &sb, status{state: state}) {
		// The listing lacks the start, and so the end of the lifetime.
		if inspected, err := p.inspect(ctx, c.ID); err == nil {
			return inspected
		}
	}
	return sb
}

func sortPorts(ports []core.PortMapping) {
	slices.SortFunc(ports, func(a, b core.PortMapping) int {
		return cmp.Or(a.Sandbox-b.Sandbox, cmp.Compare(a.Address, b.Address))
	})
}

// FindName implements core.Finder. The container's name contains the name of the live sandbox.
func (p *Provider) FindName(ctx context.Context, name string) (core.Sandbox, error) {
	sb, err := p.inspect(ctx, namePrefix+name)
	if err == nil && sb.Name == name && sb.State.Live() {
		return sb, nil
	}
	if err != nil && !errors.Is(err, core.KindNotFound) {
		return core.Sandbox{}, err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return core.Sandbox{}, p.absent(err, name)
	}
	all, err := p.list(ctx, e, make(client.Filters).Add("label", labelVersion, labelName+"="+name))
	if err != nil {
		return core.Sandbox{}, err
	}
	all = slices.DeleteFunc(all, func(sb core.Sandbox) bool { return sb.Name != name })
	if len(all) == 0 {
		return core.Sandbox{}, notFound(name)
	}
	return slices.MaxFunc(all, func(a, b core.Sandbox) int {
		if a.State.Live() != b.State.Live() {
			if a.State.Live() {
				return 1
			}
			return -1
		}
		return a.Created.Compare(b.Created)
	}), nil
}

// parseTime reads a time in the engines' format. It returns zero for an invalid time, or one before all containers.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 2000 {
		return time.Time{}
	}
	return t.UTC()
}

// knownOf returns the facts that a call to a sandbox needs.
func (p *Provider) knownOf(ctx context.Context, id string) (known, error) {
	p.knownMu.Lock()
	k, ok := p.known[id]
	p.knownMu.Unlock()
	if ok {
		return k, nil
	}
	if _, err := p.Get(ctx, id); err != nil {
		return known{}, err
	}
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	return p.known[id], nil
}

func notFound(id string) error {
	return core.Errorf(core.KindNotFound, "docker", id, "there is no sandbox %q", id).WithHint("sb ls --all lists them")
}
