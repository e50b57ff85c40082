package modal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// longPoll is the longest time that Modal may hold a waiting call, in seconds.
	longPoll = 50
	// recent is the maximum age of listed sandboxes; a live one is never older.
	recent = 25 * time.Hour
)

// Get implements core.Provider.
func (p *Provider) Get(ctx context.Context, id string) (core.Sandbox, error) {
	if !strings.HasPrefix(id, IDPrefix) {
		return core.Sandbox{}, notFound(id)
	}
	d, err := p.describe(ctx, id)
	if err != nil {
		return core.Sandbox{}, err
	}
	if d.gone() {
		return core.Sandbox{}, notFound(id)
	}
	return d.sandbox(""), nil
}

// describe gets the state and the tags of one sandbox in parallel.
func (p *Provider) describe(ctx context.Context, id string) (described, error) {
	c, err := p.connect()
	if client.NoAccount(err) {
		return described{}, notFound(id)
	}
	if err != nil {
		return described{}, err
	}
	raw, err := c.Raw(ctx)
	if err != nil {
		return described{}, client.Classify("get", id, err)
	}
	var waited *pb.SandboxWaitResponse
	var tags *pb.SandboxTagsGetResponse
	err = client.Together(
		func() (err error) { waited, err = waitOnce(ctx, raw, id, 0); return err },
		func() (err error) { tags, err = tagsGet(ctx, raw, id); return err },
	)
	if err != nil {
		return described{}, p.missing(c, "get", id, err)
	}
	d := described{id: id, appID: waited.GetMetadata().
		GetAppId(), tags: tagMap(tags.GetTags()), result: waited.GetResult()}
	// Only the list shows whether a sandbox of the first generation is queued. The creation of the second generation waits
	// for a machine.
	if sb := d.sandbox(""); sb.State.Live() && !firstGeneration(id) || d.gone() {
		return d, nil
	}
	// Only the list has the time of the end. Without the list, the sandbox has still ended.
	if whole, err := p.listed(ctx, d); err == nil {
		return whole, nil
	}
	return d, nil
}

// listed gets a sandbox's entry in Modal's list, which has its image and the times of its creation and end.
func (p *Provider) listed(ctx context.Context, d described) (described, error) {
	_, raw, err := p.control(ctx, "get")
	if err != nil {
		return d, err
	}
	for before := 0.0; ; {
		reply, err := raw.SandboxListV2(
			ctx, pb.SandboxListRequest_builder{AppId: d.appID, BeforeTimestamp: before, IncludeFinished: true}.Build(),
		)
		if err != nil {
			return d, err
		}
		for _, info := range reply.GetSandboxes() {
			if info.GetId() == d.id {
				return fromInfo(info), nil
			}
			before = info.GetCreatedAt()
		}
		if len(reply.GetSandboxes()) == 0 {
			return d, notFound(d.id)
		}
	}
}

// missing classifies an error about a sandbox. It removes the cache entry of a sandbox that does not exist.
func (p *Provider) missing(c *client.Client, op, id string, err error) error {
	if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument {
		c.Cache.Put(client.CachedTasks, id, "")
		return notFound(id)
	}
	return client.Classify(op, id, err)
}

// firstGeneration reports whether a sandbox belongs to Modal's first backend, by its id, as the SDK does.
func firstGeneration(id string) bool {
	rest, ok := strings.CutPrefix(id, IDPrefix)
	return ok && len(rest) == 22
}

func waitOnce(
	ctx context.Context, raw pb.ModalClientClient, id string, seconds float32,
) (*pb.SandboxWaitResponse, error) {
	request := pb.SandboxWaitRequest_builder{SandboxId: id, Timeout: seconds}.Build()
	if firstGeneration(id) {
		return raw.SandboxWait(ctx, request)
	}
	return raw.SandboxWaitV2(ctx, request)
}

func tagsGet(ctx context.Context, raw pb.ModalClientClient, id string) (*pb.SandboxTagsGetResponse, error) {
	request := pb.SandboxTagsGetRequest_builder{SandboxId: id}.Build()
	if firstGeneration(id) {
		return raw.SandboxTagsGet(ctx, request)
	}
	return raw.SandboxTagsGetV2(ctx, request)
}

// List implements core.Provider. It lists the apps, then the sandboxes of all apps in parallel.
func (p *Provider) List(ctx context.Context) ([]core.Sandbox, error) {
	return p.ListFiltered(ctx, core.ListFilter{All: true})
}

// ListFiltered implements core.FilterLister. It lists only matching apps. Modal itself filters by label values and by
// live state.
func (p *Provider) ListFiltered(ctx context.Context, filter core.ListFilter) ([]core.Sandbox, error) {
	c, raw, err := p.control(ctx, "list")
	if client.NoAccount(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := raw.AppList(ctx, pb.AppListRequest_builder{EnvironmentName: c.Account.Environment}.Build())
	if err != nil {
		return nil, client.Classify("list", "", err)
	}
	apps := slices.DeleteFunc(found.GetApps(), func(app *pb.AppListResponse_AppListItem) bool {
		stopped := fromUnix(app.GetStoppedAt())
		return !stopped.IsZero() && time.Since(stopped) > recent || filter.App != "" && appName(app) != filter.App
	})
	lists := make([][]core.Sandbox, len(apps))
	err = client.Each(apps, func(i int, app *pb.AppListResponse_AppListItem) (err error) {
		lists[i], err = listApp(ctx, raw, app, filter)
		if status.Code(err) == codes.NotFound {
			return nil // the app has just been removed
		}
		return err
	})
	return slices.Concat(lists...), client.Classify("list", "", err)
}

// listApp pages through one app's sandboxes, newest first, until none can be alive. Modal does not report the page
// size, so only an empty page is the last, as in its SDK.
func listApp(
	ctx context.Context, raw pb.ModalClientClient, app *pb.AppListResponse_AppListItem, filter core.ListFilter,
) ([]core.Sandbox, error) {
	var tags []*pb.SandboxTag
	for name, value := range filter.Labels {
		if value != "" { // Modal cannot filter by a label with any value
			tags = append(tags, pb.SandboxTag_builder{TagName: name, TagValue: value}.Build())
		}
	}
	var sandboxes []core.Sandbox
	before := 0.0
	for {
		reply, err := raw.SandboxListV2(ctx, pb.SandboxListRequest_builder{
			AppId: app.GetAppId(), BeforeTimestamp: before, IncludeFinished: filter.All || filter.Orphans, Tags: tags,
		}.Build())
		if err != nil {
			return nil, err
		}
		for _, info := range reply.GetSandboxes() {
			d := fromInfo(info)
			if time.Since(d.created) > recent {
				return sandboxes, nil
			}
			if !d.gone() {
				sandboxes = append(sandboxes, d.sandbox(appName(app)))
			}
			before = info.GetCreatedAt()
		}
		if len(reply.GetSandboxes()) == 0 {
			return sandboxes, nil
		}
	}
}

// FindName implements core.Finder. It tries the cache, then the sandboxes of all apps.
func (p *Provider) FindName(ctx context.Context, name string) (core.Sandbox, error) {
	c, err := p.connect()
	if err != nil {
		if client.NoAccount(err) {
			return core.Sandbox{}, notFound(name)
		}
		return core.Sandbox{}, err
	}
	if id := c.Cache.Get(client.CachedNames, name); id != "" {
		sb, err := p.Get(ctx, id)
		if err == nil && sb.Name == name && sb.State.Live() {
			return sb, nil
		}
		if err != nil && !errors.Is(err, core.KindNotFound) {
			return core.Sandbox{}, err
		}
		c.Cache.Put(client.CachedNames, name, "")
	}
	all, err := p.List(ctx)
	if err != nil {
		return core.Sandbox{}, err
	}
	var best *core.Sandbox
	for i, sb := range all {
		if sb.Name == name && (best == nil || sb.State.Live() && !best.State.Live() ||
			sb.State.Live() == best.State.Live() && sb.Created.After(best.Created)) {
			best = &all[i]
		}
	}
	if best == nil {
		return core.Sandbox{}, notFound(name)
	}
	if best.State.Live() {
		c.Cache.Put(client.CachedNames, name, best.ID)
	}
	return *best, nil
}

// WaitSandbox implements core.Waiter.
func (p *Provider) WaitSandbox(ctx context.Context, id string) (core.Sandbox, error) {
	c, err := p.connect()
	if err != nil {
		return core.Sandbox{}, err
	}
	raw, err := c.Raw(ctx)
	if err != nil {
		return core.Sandbox{}, client.Classify("wait", id, err)
	}
	for {
		waited, err := waitOnce(ctx, raw, id, longPoll)
		if err != nil {
			if ctx.Err() != nil {
				return core.Sandbox{}, core.Wrap("modal.wait", id, ctx.Err())
			}
			return core.Sandbox{}, p.missing(c, "wait", id, err)
		}
		if waited.GetResult() == nil {
			continue
		}
		tags, err := tagsGet(ctx, raw, id)
		if err != nil {
			return core.Sandbox{}, p.missing(c, "wait", id, err)
		}
		d := described{id: id, tags: tagMap(tags.GetTags()), result: waited.GetResult()}
		return d.sandbox(""), nil
	}
}

// Terminate implements core.Provider. A sandbox that had already ended gets a tag; sb then no longer shows it.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	_, err := p.End(ctx, id)
	return err
}

// End implements core.Ender with the code that Modal's own tools show.
func (p *Provider) End(ctx context.Context, id string) (*int, error) {
	if !strings.HasPrefix(id, IDPrefix) {
		return nil, notFound(id)
	}
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	raw, err := c.Raw(ctx)
	if err != nil {
		return nil, client.Classify("terminate", id, err)
	}
	p.forget(id)
	request := pb.SandboxTerminateRequest_builder{SandboxId: id}.Build()
	var reply *pb.SandboxTerminateResponse
	if firstGeneration(id) {
		reply, err = raw.SandboxTerminate(ctx, request)
	} else {
		reply, err = raw.SandboxTerminateV2(ctx, request)
	}
	if err != nil {
		return nil, p.missing(c, "terminate", id, err)
	}
	switch reply.GetExistingResult().GetStatus() {
	case pb.GenericResult_GENERIC_STATUS_UNSPECIFIED:
		waited, err := waitOnce(ctx, raw, id, longPoll)
		return returnCode(waited.GetResult()), client.Classify("terminate", id, err)
	case pb.GenericResult_GENERIC_STATUS_TERMINATED:
		return nil, notFound(id)
	case pb.GenericResult_GENERIC_STATUS_SUCCESS, pb.GenericResult_GENERIC_STATUS_FAILURE,
		pb.GenericResult_GENERIC_STATUS_TIMEOUT,
		pb.GenericResult_GENERIC_STATUS_IDLE_TIMEOUT, pb.GenericResult_GENERIC_STATUS_INIT_FAILURE,
		pb.GenericResult_GENERIC_STATUS_INTERNAL_FAILURE, pb.GenericResult_GENERIC_STATUS_MEMORY_MANAGER_EVICTION:
	}
	return returnCode(reply.GetExistingResult()), p.dismiss(ctx, c, raw, id)
}

// returnCode returns a sandbox's exit code as Modal's SDKs define it. That is the entry command's code, 124 after a
// timeout, or 137 after a termination. It is nil for a live sandbox.
func returnCode(result *pb.GenericResult) *int {
	code := int(result.GetExitcode())
	switch result.GetStatus() { //nolint:exhaustive // all others have a code of their own
	case pb.GenericResult_GENERIC_STATUS_UNSPECIFIED:
		return nil
	case pb.GenericResult_GENERIC_STATUS_TIMEOUT:
		code = 124
	case pb.GenericResult_GENERIC_STATUS_TERMINATED:
		code = 128 + sigKill
	}
	return &code
}

// dismiss tags a sandbox that has ended, so that sb no longer shows it.
func (p *Provider) dismiss(ctx context.Context, c *client.Client, raw pb.ModalClientClient, id string) error {
	tags, err := tagsGet(ctx, raw, id)
	if err != nil {
		return p.missing(c, "terminate", id, err)
	}
	if tagMap(tags.GetTags())[goneTag] != "" {
		return notFound(id)
	}
	all := tagMap(tags.GetTags())
	all[goneTag] = "1"
	return p.setTags(ctx, c, id, all)
}

func notFound(id string) error {
	return core.Errorf(core.KindNotFound, "modal", id, "there is no sandbox %q", id).WithHint("sb ls --all lists them")
}
