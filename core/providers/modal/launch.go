package modal

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// Launch implements core.Provider.
func (p *Provider) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (core.Sandbox, error) {
	if spec.Checkpoint != "" {
		return p.restore(ctx, spec, lease)
	}
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
	l := &launching{
		provider: p, client: c, spec: spec, lease: lease, recipe: made, progress: progress,
		lookups: &client.Lookups{Client: c},
	}
	sb, err := l.do(ctx)
	if l.lookups.Remembered() && (errors.Is(err, core.KindNotFound) || l.stale && errors.Is(err, core.KindConflict)) {
		// Modal no longer has an id from the cache.
		l.lookups = &client.Lookups{Client: c, Fresh: true}
		sb, err = l.do(ctx)
	}
	return sb, err
}

// launching is one launch in progress.
type launching struct {
	provider *Provider
	client   *client.Client
	spec     core.Spec
	lease    core.Lease
	recipe   recipe
	progress core.ProgressFunc
	lookups  *client.Lookups
	// stale is true if Modal did not find an id.
	stale bool
}

// do creates the sandbox.
func (l *launching) do(ctx context.Context) (core.Sandbox, error) {
	fail := func(err error) (core.Sandbox, error) {
		return core.Sandbox{}, client.Classify("launch", l.spec.Name, err)
	}
	// The lookups are independent, except that an image build needs its app.
	var params *sdk.SandboxCreateParams
	var app *sdk.App
	var image *sdk.Image
	err := client.Together(
		func() (err error) { params, err = l.definition(ctx); return err },
		func() (err error) {
			if app, err = l.app(ctx); err == nil {
				image, err = l.recipe.image(ctx, l.client, app, l.lookups, l.progress)
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
		return core.Sandbox{}, l.failed(ctx, err)
	}
	defer func() { _ = sandbox.Detach() }()
	id := sandbox.SandboxID
	if reply != nil {
		l.client.Cache.Put(client.CachedTasks, id, reply.GetTaskId())
		l.provider.remember(id, l.client, reply.GetTaskId(), reply.GetCommandRouterAccess())
	}
	if err := l.began(ctx, id); err != nil {
		return core.Sandbox{}, errors.Join(err, l.undo(ctx, id))
	}
	return l.launched(ctx, id)
}

// launched returns the new sandbox.
func (l *launching) launched(ctx context.Context, id string) (core.Sandbox, error) {
	if l.spec.Name != "" {
		l.client.Cache.Put(client.CachedNames, l.spec.Name, id)
	}
	d := described{
		id: id, name: l.spec.Name, created: l.lease.Created, tags: tagsOf(l.spec, l.lease),
		timeout: time.Duration(l.spec.Timeout),
	}
	sb := d.sandbox(l.spec.App)
	if len(l.spec.Ports) > 0 {
		opened, err := l.provider.ports(ctx, id)
		if err != nil {
			return core.Sandbox{}, errors.Join(err, l.undo(ctx, id))
		}
		sb.Ports = mappings(opened)
	}
	return sb, nil
}

// undo ends a sandbox whose launch failed.
func (l *launching) undo(ctx context.Context, id string) error {
	err := l.provider.Terminate(context.WithoutCancel(ctx), id)
	if errors.Is(err, core.KindNotFound) {
		return nil
	}
	return err
}

// app finds or creates the app.
func (l *launching) app(ctx context.Context) (*sdk.App, error) {
	id, err := l.lookups.ID(client.CachedApps, l.spec.App, func() (string, error) {
		app, err := l.client.SDK.Apps.FromName(ctx, l.spec.App, &sdk.AppFromNameParams{CreateIfMissing: true})
		if err != nil {
			return "", err
		}
		return app.AppID, nil
	})
	return &sdk.App{AppID: id, Name: l.spec.App, Environment: l.client.Account.Environment}, err
}

// create creates the sandbox. For a sandbox of the second generation, the reply contains its address; else it is nil.
func (l *launching) create(
	ctx context.Context, app *sdk.App, image *sdk.Image, params *sdk.SandboxCreateParams,
) (*sdk.Sandbox, *pb.SandboxCreateV2Response, error) {
	var seen replies
	sandbox, err := l.client.SDK.Sandboxes.Create(
		client.WithWitness(ctx, client.Witness{Reply: seen.keep}), app, image, params,
	)
	return sandbox, seen.created(), err
}

// aftermath is the time limit for a failed launch to find and end its sandbox.
const aftermath = 10 * time.Second

// failed returns the reason why the launch failed. If only Modal's answer was lost, a sandbox may exist. That sandbox
// would cost money unseen, so failed finds it by its lease and ends it.
func (l *launching) failed(ctx context.Context, cause error) error {
	failure := client.Classify("launch", l.spec.Name, cause)
	switch core.KindOf(failure) {
	case core.KindNotFound:
		l.stale = true
		return failure
	case core.KindUsage, core.KindExhausted, core.KindUnauthorized, core.KindUnsupported:
		return failure // Modal rejected the launch
	case core.KindInternal, core.KindConflict, core.KindUnavailable, core.KindTimeout, core.KindCanceled:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aftermath)
	defer cancel()
	there, err := l.provider.ListFiltered(ctx, core.ListFilter{App: l.spec.App})
	if err != nil {
		return errors.Join(failure, errors.New("it is unknown whether Modal created the sandbox; check with: sb ls "+
			"--provider modal"))
	}
	for _, sb := range there {
		if sb.Lease.Owner != l.lease.Owner || !sb.Lease.Created.Equal(l.lease.Created) || sb.Spec.Name != l.spec.Name {
			continue
		}
		if err := l.undo(ctx, sb.ID); err != nil {
			return errors.Join(failure, err)
		}
		if errors.Is(failure, core.KindConflict) { // a conflict with the sandbox of this launch
			return core.Errorf(
				core.KindUnavailable, "modal.launch", l.spec.Name,
				"Modal's answer was lost, and the sandbox that it had created was terminated",
			).
				WithHint("try again")
		}
	}
	return failure
}

// replies holds the replies to one operation that contain the address of a sandbox.
type replies struct {
	mu      sync.Mutex
	create  *pb.SandboxCreateV2Response
	restore *pb.SandboxRestoreV2Response
}

// keep receives every reply and stores those of the two kinds.
func (r *replies) keep(message any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reply := message.(type) {
	case *pb.SandboxCreateV2Response:
		r.create = reply
	case *pb.SandboxRestoreV2Response:
		r.restore = reply
	}
}

func (r *replies) created() *pb.SandboxCreateV2Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.create
}

func (r *replies) restored() *pb.SandboxRestoreV2Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restore
}

// began returns an error if the entry command did not start.
func (l *launching) began(ctx context.Context, id string) error {
	if len(l.spec.Command) == 0 {
		return nil
	}
	raw, err := l.client.Raw(ctx)
	if err != nil {
		return client.Classify("launch", l.spec.Name, err)
	}
	request := pb.SandboxGetTaskIdRequest_builder{SandboxId: id, WaitUntilReady: true}.Build()
	var ready *pb.SandboxGetTaskIdResponse
	if firstGeneration(id) {
		ready, err = raw.SandboxGetTaskId(ctx, request)
	} else {
		ready, err = raw.SandboxGetTaskIdV2(ctx, request)
	}
	if err != nil {
		return client.Classify("launch", l.spec.Name, err)
	}
	if result := ready.GetTaskResult(); result.GetStatus() == pb.GenericResult_GENERIC_STATUS_INIT_FAILURE {
		return core.Errorf(
			core.KindUsage, "modal.launch", l.spec.Name, "the entry command %q did not start: %s", l.spec.Command[0],
			result.GetException(),
		)
	}
	return nil
}
