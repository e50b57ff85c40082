package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

const (
	// readyTimeout bounds the time in which a started container reports that it is ready.
	readyTimeout = 60 * time.Second
	// execLogLimit bounds the kept output of a command that is not the entry command, in bytes.
	execLogLimit = 8 << 20
	// pidsOfOurs is the number of threads that the first process and its calls take from the limit.
	pidsOfOurs = 32
)

// Launch implements core.Provider. The container's labels hold the lease, which therefore exists as soon as the
// container does.
func (p *Provider) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (core.Sandbox, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.Sandbox{}, err
	}
	if err := p.learn(ctx, e); err != nil {
		return core.Sandbox{}, err
	}
	if progress == nil {
		progress = func(core.Progress) {}
	}
	if err := p.refuse(e, spec); err != nil {
		// The facts may be a day old.
		if err := e.Relearn(ctx, p.factsDir()); err != nil {
			return core.Sandbox{}, err
		}
		if err := p.refuse(e, spec); err != nil {
			return core.Sandbox{}, err
		}
	}
	from, err := p.store(e).Get(ctx, spec, progress)
	if err != nil {
		return core.Sandbox{}, err
	}
	helper, err := p.helper(from.Arch)
	if err != nil {
		return core.Sandbox{}, err
	}
	progress(core.Progress{Step: "starting the container"})
	if err := e.bring(ctx, helper, from.ID); err != nil {
		return core.Sandbox{}, err
	}
	l := launch{p: p, e: e, spec: spec, lease: lease, image: from, helper: helper, dir: wire.NewDir(), key: wire.NewKey()}
	return l.run(ctx)
}

// launch is one launch under way.
type launch struct {
	p      *Provider
	e      containers
	spec   core.Spec
	lease  core.Lease
	image  image.Image
	helper helper
	dir    wire.Dir
	key    []byte
}

// run creates the container and starts it. Podman sometimes loses a container's mount permanently when many launches
// run at once. Another container then replaces it.
func (l *launch) run(ctx context.Context) (core.Sandbox, error) {
	for try := 1; ; try++ {
		sb, err := l.once(ctx)
		if err == nil || !l.e.Podman || try == podmanTries || core.KindOf(err) != core.KindInternal {
			return sb, err
		}
	}
}

const podmanTries = 3

func (l *launch) once(ctx context.Context) (sb core.Sandbox, err error) {
	id, err := l.create(ctx)
	if err != nil {
		l.leave(ctx)
		return core.Sandbox{}, err
	}
	defer func() {
		if err != nil {
			// The caller's context may have ended already, but the container must be removed.
			ctx, cancel := engine.Within(context.WithoutCancel(ctx), engine.WorkTimeout)
			defer cancel()
			_, _ = l.e.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			l.leave(ctx)
		}
	}()
	config, err := l.config(ctx, idOf(id))
	if err != nil {
		return core.Sandbox{}, err
	}
	config.Expires = l.lease.Expires
	if config.Expires.IsZero() && l.spec.Timeout > 0 {
		config.Expires = time.Now().Add(time.Duration(l.spec.Timeout))
	}
	if err := l.start(ctx, id, config); err != nil {
		return core.Sandbox{}, err
	}
	return l.p.inspect(ctx, id)
}

// config returns the configuration for the first process.
func (l *launch) config(ctx context.Context, id string) (wire.Config, error) {
	fence := fence(l.spec)
	if fence.On && !fence.OpenHost || fence.Closed {
		hosts, err := l.e.hostAddresses(ctx)
		if err != nil {
			return wire.Config{}, err
		}
		fence.Host = hosts
	}
	if l.spec.Network.Mode == core.NetworkInternal {
		// Checked again: before the container existed, another sandbox's end may have removed the network.
		n, err := l.p.internal(ctx, l.e, l.internal())
		if err != nil {
			return wire.Config{}, err
		}
		fence = internalFence(n)
	}
	config := wire.Config{
		ID: id, Spec: l.spec.Redacted(), Actor: l.lease.Owner.Actor, User: l.spec.User, Workdir: l.spec.Workdir,
		Secrets:      map[string]string{},
		StopSignal:   l.image.StopSignal,
		ExecLogLimit: execLogLimit, EntryLogLimit: int64(l.p.opts.LogLimit), Fence: fence,
	}
	if config.User == "" {
		config.User = l.image.User
	}
	if config.Workdir == "" {
		config.Workdir = l.image.Workdir
	}
	for _, secret := range l.spec.Secrets {
		config.Secrets[secret.Name] = secret.Value.Reveal()
	}
	return config, nil
}

// internal returns the name of the sandbox's internal network.
func (l *launch) internal() string { return internalName(l.spec.App, l.lease.Owner) }

// leave removes the internal network of a failed launch, unless another container uses it.
func (l *launch) leave(ctx context.Context) {
	if l.spec.Network.Mode == core.NetworkInternal {
		_ = l.e.leaveInternal(ctx, l.internal())
	}
}

// create creates the container. The engine gives a name to one container only, so names are unique. A dead sandbox's
// container is renamed.
func (l *launch) create(ctx context.Context) (string, error) {
	described, err := labels(l.spec, l.lease, l.dir, l.key)
	if err != nil {
		return "", err
	}
	host, err := l.host(ctx)
	if err != nil {
		return "", err
	}
	if l.e.Podman {
		described[labelRuntime] = cmp.Or(host.Runtime, l.e.Facts().Runtime)
	}
	stop := int(2 * stopSlack / time.Second)
	options := client.ContainerCreateOptions{
		Name: namePrefix + l.spec.Name,
		Config: &container.Config{
			Hostname: hostname(l.spec.Name), User: "0:0", Image: l.image.ID, Cmd: []string{l.dir.Program(), wire.ModeBox},
			WorkingDir: "/", Labels: described, StopTimeout: &stop, StopSignal: "SIGTERM",
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, AttachStdin: true, AttachStdout: true, OpenStdin: true,
			StdinOnce: true, ExposedPorts: exposed(l.spec.Ports),
		},
		HostConfig: host,
	}
	if l.spec.Network.Mode == core.NetworkInternal {
		options.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
			l.internal(): {Aliases: []string{l.spec.Name}},
		}}
	}
	if len(l.image.Entrypoint) > 0 {
		// This means none. An override alone is not enough: a snapshot could not remove it again.
		options.Config.Entrypoint = []string{""}
	}
	for try := 0; ; try++ {
		id, err := l.e.create(ctx, options)
		switch {
		case err == nil:
			return id, nil
		case errors.Is(err, core.KindConflict), l.e.Podman && core.KindOf(err) == core.KindInternal:
		default:
			return "", err
		}
		// For a name in use, Podman reports only an internal error.
		free, wayErr := l.makeWay(ctx, options.Name)
		if wayErr != nil {
			return "", wayErr
		}
		if try == createTries || free && core.KindOf(err) == core.KindInternal && try > 0 {
			return "", err
		}
	}
}

// createTries bounds the tries for a name that another launch has released.
const createTries = 3

// create creates a container and returns its id.
func (e containers) create(ctx context.Context, options client.ContainerCreateOptions) (string, error) {
	// An engine finishes a container even when the caller stops waiting. So this waits for the id, which the removal of
	// the container needs.
	patient, cancel := engine.Within(context.WithoutCancel(ctx), engine.WorkTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(createGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-patient.Done():
		}
	})
	defer stop()
	created, err := e.Client.ContainerCreate(patient, options)
	if err != nil {
		if ctx.Err() != nil {
			return "", engine.Classify(ctx, "launch", options.Name, ctx.Err())
		}
		return "", engine.Classify(patient, "launch", options.Name, err)
	}
	return created.ID, nil
}

// createGrace bounds the wait of a canceled launch for the container that is being created.
const createGrace = 3 * time.Second

// nameTaken returns the error for a name in use. It names the other sandbox's owner if that is not the launch's.
func (l *launch) nameTaken(holder core.Owner) error {
	name := l.spec.Name
	if holder.ID == l.lease.Owner.ID {
		return core.Errorf(core.KindConflict, "docker.launch", name, "there is a sandbox %q already", name).
			WithHint("choose another name, or end it with: sb terminate %s", name)
	}
	whose := "another owner"
	if holder.User != "" || holder.Host != "" {
		whose = fmt.Sprintf("another owner, %q", holder.User+"@"+holder.Host)
	}
	return core.Errorf(core.KindConflict, "docker.launch", name, "%s has a sandbox %q at this engine", whose, name).
		WithHint("choose another name, such as: --name %s-2", name)
}

// makeWay renames a dead sandbox's container. free reports that no container has the name.
func (l *launch) makeWay(ctx context.Context, name string) (free bool, err error) {
	holder, err := l.p.inspect(ctx, name)
	if errors.Is(err, core.KindNotFound) {
		ctx, cancel := engine.Within(ctx, engine.AskTimeout)
		defer cancel()
		_, err := l.e.Client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		switch {
		case err == nil:
			return false, core.Errorf(
				core.KindConflict, "docker.launch", l.spec.Name, "a container that sb did not create has the name %s", name,
			).
				WithHint("choose another name")
		case !errdefs.IsNotFound(err):
			return false, engine.Classify(ctx, "launch", l.spec.Name, err)
		}
		return l.awaitName(ctx), nil
	}
	if err != nil {
		return false, err
	}
	if holder.State.Live() {
		return false, l.nameTaken(holder.Lease.Owner)
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	dead := containerOf(holder.ID)
	_, err = l.e.Client.ContainerRename(ctx, dead, client.ContainerRenameOptions{NewName: deadName(l.spec.Name, dead)})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return false, nil // another launch was as quick
	}
	return false, engine.Classify(ctx, "launch", l.spec.Name, err)
}

// awaitName waits a moment for another launch that has the name but no container yet. It reports whether none appears.
func (l *launch) awaitName(ctx context.Context) bool {
	ctx, cancel := engine.Within(ctx, nameGrace)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := l.e.Client.ContainerInspect(ctx, namePrefix+l.spec.Name, client.ContainerInspectOptions{})
		if err == nil {
			return false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true
		}
	}
}

// nameGrace bounds the time in which Podman has taken a name but reports no container for it.
const nameGrace = time.Second

// hostname converts the sandbox's name to a valid hostname.
func hostname(name string) string { return strings.NewReplacer("_", "-", ".", "-").Replace(name) }

func exposed(ports []core.Port) network.PortSet {
	set := network.PortSet{}
	for _, port := range outside(ports) {
		set[portOf(int(port.Outside))] = struct{}{}
	}
	return set
}

func portOf(number int) network.Port {
	port, _ := network.PortFrom(uint16(number), network.TCP) //nolint:gosec // validated: 1 to 65535
	return port
}

// host returns the engine's configuration of the container. It removes all privileges that the sandbox does not need.
func (l *launch) host(ctx context.Context) (h *container.HostConfig, err error) {
	spec := l.spec
	h = &container.HostConfig{
		// The log has the sandbox's states, and List reads it.
		LogConfig:   container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
		CapDrop:     []string{"ALL"},
		CapAdd:      shellCapabilities(),
		SecurityOpt: []string{"no-new-privileges"},
		IpcMode:     "private",
		// Docker's own default is the host's with control groups of version 1.
		CgroupnsMode: container.CgroupnsModePrivate,
		NetworkMode:  network.NetworkNone,
	}
	if l.e.Podman {
		h.LogConfig = container.LogConfig{Type: "k8s-file"}
	}
	if spec.Network.Mode != core.NetworkNone {
		// Not one of sb's networks: their name server runs in the engine, outside the fence.
		h.NetworkMode = network.NetworkBridge
		if l.e.Podman {
			h.NetworkMode = "private" // Podman's default network: its bridge, slirp4netns or pasta
		}
		// For the fence; the first process drops both before it starts other programs.
		h.CapAdd = append(h.CapAdd, "NET_ADMIN", "SETPCAP")
		h.PortBindings = published(spec.Ports)
	}
	if spec.Network.Mode == core.NetworkInternal {
		n, err := l.p.internal(ctx, l.e, l.internal())
		if err != nil {
			return nil, err
		}
		h.NetworkMode = container.NetworkMode(n.Name)
		// The engine's name server forwards unknown names, possibly from its own machine. It queries this address from the
		// container, where the fence is.
		h.DNS = []netip.Addr{netip.MustParseAddr(nowhere)}
	}
	if spec.CPU > 0 {
		h.NanoCPUs = int64(spec.CPU * 1e9)
	}
	if spec.Memory > 0 {
		h.Memory, h.MemorySwap = int64(spec.Memory), int64(spec.Memory)
	}
	if spec.Processes > 0 {
		h.PidsLimit = new(int64(spec.Processes + pidsOfOurs))
	}
	if spec.Disk > 0 {
		h.StorageOpt = map[string]string{"size": strconv.FormatInt(int64(spec.Disk), 10)}
	}
	if !spec.GPU.IsZero() {
		h.DeviceRequests = []container.DeviceRequest{gpus(l.e.Facts(), spec.GPU.Count)}
	}
	h.ShmSize, h.ReadonlyRootfs, h.Tmpfs = int64(spec.ShmSize), spec.ReadOnly, inMemory(spec, l.e.Podman)
	for _, server := range spec.DNS {
		address, err := netip.ParseAddr(server)
		if err != nil {
			return nil, core.Invalid("dns", "%q is not an IP address", server)
		}
		h.DNS = append(h.DNS, address)
	}
	h.Runtime = l.p.opts.Runtime
	h.Mounts, err = l.p.mounts(ctx, l.e, spec)
	h.Mounts = append(h.Mounts, mount.Mount{
		Type: mount.TypeVolume, Target: string(l.dir),
		VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{labelBox: version}},
	}, l.helper.mount(l.dir))
	return h, err
}

// gpus requests a number of the engine's GPUs: from NVIDIA's own runtime, or else by their names.
func gpus(f engine.Facts, count int) container.DeviceRequest {
	if f.GPU || len(f.CDI) == 0 {
		return container.DeviceRequest{Driver: "nvidia", Count: count, Capabilities: [][]string{{"gpu"}}}
	}
	return container.DeviceRequest{Driver: "cdi", DeviceIDs: f.CDI[:min(count, len(f.CDI))]}
}

// shellCapabilities are the capabilities that root needs to own files and to run installed programs as other users.
func shellCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"}
}

// published publishes ports on the loopback address of the engine's machine.
func published(ports []core.Port) network.PortMap {
	m := network.PortMap{}
	listeners := outside(ports)
	for _, port := range ports {
		binding := network.PortBinding{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
		if port.Host != 0 {
			binding.HostPort = strconv.Itoa(port.Host)
		}
		at := slices.IndexFunc(listeners, func(p wire.Port) bool { return int(p.Inside) == port.Sandbox })
		listener := portOf(int(listeners[at].Outside))
		m[listener] = append(m[listener], binding)
	}
	return m
}

// fence returns the network policy that the first process enforces, without the addresses of the engine's machine.
func fence(spec core.Spec) wire.Fence {
	n := spec.Network
	f := wire.Fence{On: true, OpenHost: n.Host(), Ports: outside(spec.Ports)}
	switch n.Mode {
	case core.NetworkNone:
		return wire.Fence{}
	case core.NetworkAllow:
		f.Closed = true
		for _, allowed := range n.Allow {
			if allowed != core.AllowHost {
				f.Only = append(f.Only, allowed)
			}
		}
	case core.NetworkDefault, core.NetworkAll, core.NetworkInternal:
	}
	return f
}

// start starts a container. A container whose first process did not start is started again: its volume may have lacked
// the helper, because the volume was just removed or another launch was filling it.
func (l *launch) start(ctx context.Context, id string, config wire.Config) error {
	err := l.e.start(ctx, id, config, l.key, time.Time{})
	if err == nil || ctx.Err() != nil || !l.e.neverStarted(ctx, id) {
		return err
	}
	if l.e.helperLost(ctx, id, l.dir) {
		if err := l.e.fill(ctx, l.helper, l.image.ID); err != nil {
			return err
		}
	}
	return l.e.start(ctx, id, config, l.key, time.Time{})
}

// neverStarted reports whether a container has had no process.
func (e containers) neverStarted(ctx context.Context, id string) bool {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.container(ctx, id)
	return err == nil && parseTime(found.State.StartedAt).IsZero()
}

// start starts a container and returns when it can run commands. before is the time of the last state in its log. If
// another process starts it at the same time, the first process answers that one, and its state is only in the log.
func (e containers) start(ctx context.Context, id string, config wire.Config, key []byte, before time.Time) error {
	setup, err := json.Marshal(wire.Setup{Version: wire.Version, Config: config, Key: key})
	if err != nil {
		return err
	}
	if len(setup) > wire.MaxFrame {
		return core.Errorf(
			core.KindUsage, "docker.launch", config.Spec.Name, "the sandbox's configuration, with its secrets, is larger "+
				"than %s",
			core.Bytes(wire.MaxFrame),
		)
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	for try := 1; ; try++ {
		responded, err := e.tryStart(ctx, id, config.Spec, setup, before)
		if err == nil || responded || !e.Podman || try == startTries || ctx.Err() != nil {
			return err
		}
	}
}

// startTries bounds the starts of a container whose first process does not respond.
const startTries = 3

// tryStart starts a container once. responded is false when the first process sent no state. Podman's cleanup of a
// container's previous run comes at any time, even after the preparation of the next run. The connection then ends,
// possibly after Podman's own error, which looks like a message of the first process.
func (e containers) tryStart(
	ctx context.Context, id string, spec core.Spec, setup []byte, before time.Time,
) (responded bool, err error) {
	if e.Podman {
		if err := e.Initialize(ctx, id); err != nil {
			return true, startError(ctx, spec, err)
		}
	}
	attached, err := e.Client.ContainerAttach(
		ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true},
	)
	if err != nil {
		return false, startError(ctx, spec, err)
	}
	defer attached.Close()
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	states := make(chan wire.State, 1)
	tail := &engine.Tail{}
	go readState(attached.Reader, states, tail)
	// The write begins before the start, since the first process does not wait long. The engine buffers a part; the rest
	// follows after the start.
	var sending sync.WaitGroup
	defer sending.Wait()
	defer attached.Close()
	unsent := make(chan error, 1)
	sending.Go(func() {
		if _, err := attached.Conn.Write(wire.AppendFrame(nil, wire.FrameSetup, setup)); err != nil {
			unsent <- err
		}
	})
	if _, err := e.Client.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return true, startError(ctx, spec, err)
	}
	ready := time.NewTimer(readyTimeout)
	defer ready.Stop()
	look := time.NewTicker(othersPoll)
	defer look.Stop()
	for {
		select {
		case state, ok := <-states:
			switch {
			case ok && state.State == core.StateRunning:
				return true, nil
			case ok && state.State == core.StateExited:
				return true, nil // a short command, whose end is known
			case ok && state.State == core.StateFailed:
				return true, core.Errorf(core.ParseKind(state.Kind), "docker.launch", "", "%s", state.Message).
					WithHint("%s", state.Hint)
			}
			return false, core.Errorf(
				core.KindInternal, "docker.launch", spec.Name, "the container's first process ended: %s", tail,
			)
		case <-look.C:
			if last, ok := lastState(ctx, e, idOf(id)); ok && last.State == core.StateRunning && !last.Time.Equal(before) {
				return true, nil
			}
		case err := <-unsent:
			return false, engine.Classify(ctx, "launch", spec.Name, err)
		case <-ready.C:
			return true, core.Errorf(
				core.KindTimeout, "docker.launch", spec.Name, "the container did not become ready: %s", tail,
			)
		case <-ctx.Done():
			return true, engine.Classify(ctx, "launch", spec.Name, ctx.Err())
		}
	}
}

// othersPoll is the interval of checks whether another process has started the container.
const othersPoll = time.Second

// readState sends the first state of the first process; its stderr goes to tail.
func readState(attached io.Reader, states chan<- wire.State, tail *engine.Tail) {
	defer close(states)
	r, w := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(w, tail, attached)
		_ = w.CloseWithError(errors.Join(err, io.EOF))
	}()
	var state wire.State
	if json.NewDecoder(r).Decode(&state) == nil {
		states <- state
	}
	_ = r.Close()
}

// startError returns the error for a container that does not start.
func startError(ctx context.Context, spec core.Spec, err error) error {
	failed := engine.Classify(ctx, "launch", spec.Name, err)
	e, ok := errors.AsType[*core.Error](failed)
	if ok && !spec.GPU.IsZero() && (e.Kind == core.KindInternal || e.Kind == core.KindUsage) {
		e.Kind = core.KindUnsupported
		e.Hint = "the engine needs NVIDIA's container toolkit for GPUs"
	}
	return failed
}

// refuse returns an error for a feature of spec that the engine lacks or that sb's policy forbids.
func (p *Provider) refuse(e containers, spec core.Spec) error {
	unsupported := func(subject, why, hint string) error {
		return core.Errorf(core.KindUnsupported, "docker.launch", subject, "%s", why).WithHint("%s", hint)
	}
	f := e.Facts()
	for _, limit := range []struct {
		requested, holds bool
		name             string
	}{
		{spec.CPU > 0, f.CPU, "cpu"},
		{spec.Memory > 0, f.Memory, "memory"},
		{spec.Processes > 0, f.Processes, "processes"},
		{spec.Disk > 0, f.Disk, "disk"},
	} {
		if limit.requested && !limit.holds {
			return unsupported(limit.name, "this engine cannot enforce a limit of "+limit.name, limitHint(e, limit.name))
		}
	}
	if spec.OpenFiles > 0 && spec.OpenFiles < minOpenFiles {
		return core.Errorf(
			core.KindUsage, "docker.launch", "open_files", "at least %d are needed in a container", minOpenFiles,
		)
	}
	if mode := spec.Network.Mode; len(spec.Ports) > 0 && (mode == core.NetworkNone || mode == core.NetworkInternal) {
		return unsupported(
			"ports", "ports of a container are published with --network all or allow only",
			"reach them with: sb port forward, or use the local provider",
		)
	}
	for _, allowed := range spec.Network.Allow {
		if allowed != core.AllowHost && isName(allowed) {
			return unsupported(allowed, "a container's network cannot filter by name: only CIDRs can be allowed",
				"allow CIDRs, or use --provider local for domains")
		}
	}
	if err := p.refuseRuntime(e); err != nil {
		return err
	}
	for _, secret := range spec.Secrets {
		if secret.Ref != "" {
			return unsupported(secret.Name, "container engines do not store secrets", "set the secret's value in this "+
				"environment")
		}
	}
	if !spec.GPU.IsZero() && !f.GPU && len(f.CDI) < spec.GPU.Count {
		return unsupported(
			"gpu", "this engine offers no GPUs", "install NVIDIA's container toolkit for Docker, or use another provider",
		)
	}
	return nil
}

// refuseRuntime returns an error if the engine lacks the runtime of docker.runtime or does not accept it.
func (p *Provider) refuseRuntime(e containers) error {
	runtime := p.opts.Runtime
	if runtime == "" || slices.Contains(e.Facts().Runtimes, runtime) {
		return nil
	}
	refused := core.Errorf(core.KindUnsupported, "docker.runtime", runtime, "the engine has no runtime of that name")
	if e.Podman {
		return refused.WithHint(
			"Podman's API accepts its default only (%s): set another in containers.conf, or unset docker.runtime",
			e.Facts().Runtime,
		)
	}
	return refused.WithHint("the engine has %s: set docker.runtime to one of them", strings.Join(e.Facts().Runtimes, ", "))
}

// minOpenFiles is the minimum for the first process, to which the limit also applies.
const minOpenFiles = 256

func limitHint(e containers, name string) string {
	switch {
	case name == "disk":
		return "Docker limits the disk on XFS with project quotas (overlay2), btrfs and ZFS only; leave --disk out"
	case e.Facts().Rootless && e.Facts().CgroupV1:
		return "rootless engines need cgroup v2; leave --" + name + " out here"
	}
	return "leave --" + name + " out here"
}
