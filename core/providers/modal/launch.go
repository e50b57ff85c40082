package modal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// Bounds that Modal sets. They are checked here so that a slip costs no image build.
const (
	maxLife    = 24 * time.Hour
	maxMemory  = 336 * core.GiB
	maxCPU     = 64
	defaultApp = "sb"
	// defaultLife is what a sandbox without a timeout gets: Modal's own five minutes end too soon for a
	// person, and its longest is dear when one is forgotten.
	defaultLife = time.Hour
)

// Launch implements core.Provider.
func (p *Provider) Launch(ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc) (core.Sandbox, error) {
	spec, err := checkSpec(spec)
	if err != nil {
		return core.Sandbox{}, err
	}
	made, err := recipeOf(spec)
	if err != nil {
		return core.Sandbox{}, err
	}
	c, err := p.connect()
	if err != nil {
		return core.Sandbox{}, err
	}
	l := &launching{provider: p, client: c, spec: spec, lease: lease, recipe: made, progress: progress}
	sb, err := l.do(ctx, false)
	if kind := core.KindOf(err); err != nil && l.cached && (kind == core.KindNotFound || kind == core.KindConflict && l.stale) {
		// What the cache remembered is not there any more.
		sb, err = l.do(ctx, true)
	}
	return sb, err
}

// checkSpec refuses what Modal would refuse, and fills in what it decides.
func checkSpec(spec core.Spec) (core.Spec, error) {
	refuse := func(field, format string, args ...any) error {
		return core.Errorf(core.KindUsage, "modal.launch", "", "%s: %s", field, fmt.Sprintf(format, args...))
	}
	if err := checkGPU(spec.GPU); err != nil {
		return spec, err
	}
	switch {
	case spec.Timeout > core.Duration(maxLife):
		return spec, refuse("timeout", "Modal ends a sandbox after 24h at the latest, not %s", spec.Timeout)
	case spec.IdleTimeout > core.Duration(maxLife):
		return spec, refuse("idle_timeout", "%s is more than 24h", spec.IdleTimeout)
	case spec.Memory > maxMemory:
		return spec, refuse("memory", "Modal gives a sandbox at most %s, not %s", maxMemory, spec.Memory)
	case spec.CPU > maxCPU || spec.CPU > 0 && spec.CPU < 0.125:
		return spec, refuse("cpu", "Modal gives a sandbox 0.125 to %d cores, not %v", maxCPU, spec.CPU)
	case spec.GPU.IsZero() && strings.Contains(spec.Image, " "):
		return spec, refuse("image", "%q is not an image", spec.Image)
	}
	for _, port := range spec.Ports {
		if port.Host != 0 {
			return spec, core.Errorf(core.KindUnsupported, "modal.launch", "", "ports: Modal publishes at an address of its own, so port %d of this machine cannot be chosen", port.Host).
				WithHint("name only the port inside: --port %d", port.Sandbox)
		}
	}
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Source, "/") {
			return spec, core.Errorf(core.KindUnsupported, "modal.launch", v.Source, "Modal cannot see directories of this machine").WithHint("name a volume of Modal's")
		}
	}
	for _, field := range []struct {
		name string
		set  bool
	}{{"user", spec.User != ""}, {"disk", spec.Disk != 0}, {"processes", spec.Processes != 0}, {"open_files", spec.OpenFiles != 0}, {"persist", spec.Persist}} {
		if field.set {
			return spec, core.Errorf(core.KindUnsupported, "modal.launch", "", "Modal has no %s", field.name)
		}
	}
	if spec.Timeout == 0 {
		spec.Timeout = core.Duration(defaultLife)
	}
	if spec.App == "" {
		spec.App = defaultApp
	}
	return spec, nil
}

// launching is one launch on its way.
type launching struct {
	provider *Provider
	client   *client
	spec     core.Spec
	lease    core.Lease
	recipe   recipe
	progress core.ProgressFunc
	// cached says that an id came from the cache, stale that Modal did not take it.
	cached, stale bool
}

// do makes the sandbox. With fresh no id of the cache is used.
func (l *launching) do(ctx context.Context, fresh bool) (core.Sandbox, error) {
	fail := func(err error) (core.Sandbox, error) {
		return core.Sandbox{}, classify("launch", l.spec.Name, err)
	}
	// The lookups do not depend on each other, but an image is built for an app.
	var params *sdk.SandboxCreateParams
	var app *sdk.App
	var image *sdk.Image
	err := both(
		func() (err error) { params, err = l.params(ctx, fresh); return err },
		func() (err error) {
			if app, err = l.app(ctx, fresh); err == nil {
				image, err = l.image(ctx, app, fresh)
			}
			return err
		},
	)
	if err != nil {
		return fail(err)
	}
	if l.progress != nil {
		l.progress(core.Progress{Step: "scheduling"})
	}
	sandbox, reply, err := l.create(ctx, app, image, params)
	if err != nil {
		if kind, _ := kindOf(err); kind == core.KindNotFound {
			l.stale = true
		}
		return fail(err)
	}
	defer func() { _ = sandbox.Detach() }()
	id := sandbox.SandboxID
	if reply != nil {
		l.client.cache.put(cachedTasks, id, reply.GetTaskId())
		l.provider.remember(id, l.client, reply.GetTaskId(), reply.GetCommandRouterAccess())
	}
	if err := l.began(ctx, id); err != nil {
		return core.Sandbox{}, errors.Join(err, l.undo(ctx, id))
	}
	if l.spec.Name != "" {
		l.client.cache.put(cachedNames, l.spec.Name, id)
	}
	d := described{id: id, name: l.spec.Name, created: l.lease.Created, tags: tagsOf(l.spec, l.lease), timeout: time.Duration(l.spec.Timeout)}
	sb := d.sandbox(l.spec.App)
	if len(l.spec.Ports) > 0 {
		if sb.Ports, err = l.provider.ports(ctx, l.client, id); err != nil {
			return core.Sandbox{}, errors.Join(err, l.undo(ctx, id))
		}
	}
	return sb, nil
}

// undo ends a sandbox that did not become what was asked for.
func (l *launching) undo(ctx context.Context, id string) error {
	err := l.provider.Terminate(context.WithoutCancel(ctx), id)
	if core.KindOf(err) == core.KindNotFound {
		return nil
	}
	return err
}

// app finds the app, or makes it.
func (l *launching) app(ctx context.Context, fresh bool) (*sdk.App, error) {
	if id := l.client.cache.get(cachedApps, l.spec.App); id != "" && !fresh {
		l.cached = true
		return &sdk.App{AppID: id, Name: l.spec.App, Environment: l.client.account.Environment}, nil
	}
	app, err := l.client.sdk.Apps.FromName(ctx, l.spec.App, &sdk.AppFromNameParams{CreateIfMissing: true})
	if err == nil {
		l.client.cache.put(cachedApps, l.spec.App, app.AppID)
	}
	return app, err
}

func (l *launching) image(ctx context.Context, app *sdk.App, fresh bool) (*sdk.Image, error) {
	if l.client.cache.get(cachedImages, l.recipe.key()) != "" && !fresh {
		l.cached = true
	}
	return l.client.image(ctx, app, l.recipe, fresh, l.progress)
}

// create makes the sandbox. The reply is there for sandboxes of the second generation: it says how to reach them.
func (l *launching) create(ctx context.Context, app *sdk.App, image *sdk.Image, params *sdk.SandboxCreateParams) (*sdk.Sandbox, *pb.SandboxCreateV2Response, error) {
	var reply *pb.SandboxCreateV2Response
	var mu sync.Mutex
	ctx = withWitness(ctx, witness{reply: func(message any) {
		if made, ok := message.(*pb.SandboxCreateV2Response); ok {
			mu.Lock()
			defer mu.Unlock()
			reply = made
		}
	}})
	sandbox, err := l.client.sdk.Sandboxes.Create(ctx, app, image, params)
	mu.Lock()
	defer mu.Unlock()
	if err != nil && reply != nil {
		return nil, nil, errors.Join(err, l.undo(ctx, reply.GetSandboxId()))
	}
	return sandbox, reply, err
}

// began sees whether an entry command was there to be started.
func (l *launching) began(ctx context.Context, id string) error {
	if len(l.spec.Command) == 0 {
		return nil
	}
	raw, err := l.client.raw(ctx)
	if err != nil {
		return classify("launch", l.spec.Name, err)
	}
	request := pb.SandboxGetTaskIdRequest_builder{SandboxId: id, WaitUntilReady: true}.Build()
	var ready *pb.SandboxGetTaskIdResponse
	if firstGeneration(id) {
		ready, err = raw.SandboxGetTaskId(ctx, request)
	} else {
		ready, err = raw.SandboxGetTaskIdV2(ctx, request)
	}
	if err != nil {
		return classify("launch", l.spec.Name, err)
	}
	if result := ready.GetTaskResult(); result.GetStatus() == pb.GenericResult_GENERIC_STATUS_INIT_FAILURE {
		return core.Errorf(core.KindUsage, "modal.launch", l.spec.Name, "the entry command %q did not start: %s", l.spec.Command[0], result.GetException())
	}
	return nil
}

// params is what Modal is asked for.
func (l *launching) params(ctx context.Context, fresh bool) (*sdk.SandboxCreateParams, error) {
	spec := l.spec
	params := &sdk.SandboxCreateParams{
		GPU: spec.GPU.String(), CPU: spec.CPU, MemoryMiB: int(spec.Memory / core.MiB), MemoryLimitMiB: int(spec.Memory / core.MiB),
		Timeout: wholeSeconds(time.Duration(spec.Timeout)), IdleTimeout: wholeSeconds(time.Duration(spec.IdleTimeout)), Workdir: spec.Workdir,
		Command: spec.Command, Env: spec.Env, Name: spec.Name, Tags: tagsOf(spec, l.lease),
	}
	if spec.CPU > 0 {
		params.CPULimit = spec.CPU
	}
	for _, port := range spec.Ports {
		params.EncryptedPorts = append(params.EncryptedPorts, port.Sandbox)
	}
	policy(params, spec.Network)
	var err error
	if params.Secrets, err = l.client.secrets(ctx, spec.Secrets); err != nil {
		return nil, err
	}
	params.Volumes, err = l.volumes(ctx, fresh)
	return params, err
}

// wholeSeconds rounds up: Modal counts in seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// policy says where a sandbox may connect to.
func policy(params *sdk.SandboxCreateParams, network core.Network) {
	switch network.Mode {
	case core.NetworkNone:
		params.BlockNetwork = true
	case core.NetworkAllow:
		cidrs, domains := &sdk.Allowlist{}, &sdk.Allowlist{}
		for _, allowed := range network.Allow {
			if _, err := netip.ParsePrefix(allowed); err == nil {
				cidrs.Entries = append(cidrs.Entries, allowed)
			} else {
				domains.Entries = append(domains.Entries, allowed)
			}
		}
		params.OutboundCIDRAllowlist, params.OutboundDomainAllowlist = cidrs, domains
	case core.NetworkAll, core.NetworkDefault:
	}
}

// secrets makes Modal's secrets: values go inline, references are looked up.
func (c *client) secrets(ctx context.Context, list []core.Secret) ([]*sdk.Secret, error) {
	var secrets []*sdk.Secret
	inline := map[string]string{}
	for _, secret := range list {
		if secret.Ref == "" {
			inline[secret.Name] = secret.Value.Reveal()
			continue
		}
		if id := c.cache.get(cachedSecrets, secret.Ref); id != "" {
			secrets = append(secrets, &sdk.Secret{SecretID: id, Name: secret.Ref})
			continue
		}
		found, err := c.sdk.Secrets.FromName(ctx, secret.Ref, nil)
		if err != nil {
			return nil, err
		}
		c.cache.put(cachedSecrets, secret.Ref, found.SecretID)
		secrets = append(secrets, found)
	}
	if len(inline) > 0 {
		made, err := c.sdk.Secrets.FromMap(ctx, inline, nil)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, made)
	}
	return secrets, nil
}

// volumes finds the volumes, or makes them. A source is NAME or NAME/SUB/PATH.
func (l *launching) volumes(ctx context.Context, fresh bool) (map[string]*sdk.Volume, error) {
	volumes := map[string]*sdk.Volume{}
	for _, v := range l.spec.Volumes {
		name, sub, _ := strings.Cut(v.Source, "/")
		found := &sdk.Volume{VolumeID: l.client.cache.get(cachedVolumes, name), Name: name}
		if found.VolumeID == "" || fresh {
			var err error
			if found, err = l.client.sdk.Volumes.FromName(ctx, name, &sdk.VolumeFromNameParams{CreateIfMissing: true}); err != nil {
				return nil, err
			}
			l.client.cache.put(cachedVolumes, name, found.VolumeID)
		} else {
			l.cached = true
		}
		if v.ReadOnly || sub != "" {
			found = found.WithMountOptions(&sdk.VolumeMountOptionsParams{ReadOnly: &v.ReadOnly, SubPath: &sub})
		}
		volumes[v.Target] = found
	}
	return volumes, nil
}
