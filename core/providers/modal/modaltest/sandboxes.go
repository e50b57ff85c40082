package modaltest

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-0724f904/sb/core"
)

// Modal's limits for a sandbox.
const (
	defaultLife = 5 * time.Minute
	maxLife     = 24 * time.Hour
	listPage    = 100
)

// loopback is the source address of every connection to a published port.
const loopback = "127.0.0.1"

// Definition returns the definition of a sandbox, or nil if it does not exist.
func (s *Server) Definition(id string) *pb.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if box := s.sandboxes[id]; box != nil {
		return box.definition
	}
	return nil
}

// SandboxCreate creates a sandbox of the first generation.
func (s *Server) SandboxCreate(ctx context.Context, r *pb.SandboxCreateRequest) (*pb.SandboxCreateResponse, error) {
	box, err := s.create(ctx, "sb-"+randomText(v1Alphabet, 22), r.GetAppId(), r.GetDefinition(), r.GetTags(), nil)
	if err != nil {
		return nil, err
	}
	return pb.SandboxCreateResponse_builder{SandboxId: box.id}.Build(), nil
}

// SandboxCreateV2 creates a sandbox of the second generation.
func (s *Server) SandboxCreateV2(
	ctx context.Context, r *pb.SandboxCreateV2Request,
) (*pb.SandboxCreateV2Response, error) {
	if r.GetDefinition().GetResources().GetGpuConfig().GetGpuType() != "" {
		return nil, status.Error(codes.InvalidArgument, "GPUs are not supported by this kind of Sandbox")
	}
	box, err := s.create(ctx, "sb-"+newULID(), r.GetAppId(), r.GetDefinition(), r.GetTags(), r.GetSecretSources())
	if err != nil {
		return nil, err
	}
	token, err := s.signer.sign(box.task, s.opts.TokenLife)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.SandboxCreateV2Response_builder{
		SandboxId: box.id, TaskId: box.task, Metadata: pb.SandboxHandleMetadata_builder{AppId: box.app.id}.Build(),
		CommandRouterAccess: pb.CommandRouterAccess_builder{Jwt: token, Url: s.routerURL()}.Build(),
	}.Build(), nil
}

// create checks a definition, reserves the name and starts the sandbox.
func (s *Server) create(
	ctx context.Context, id, appID string, definition *pb.Sandbox, tags []*pb.SandboxTag, sources []*pb.SecretSource,
) (*sandbox, error) {
	if err := checkDefinition(definition); err != nil {
		return nil, err
	}
	s.mu.Lock()
	box, below, err := s.admit(id, appID, definition, tags, sources)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if fields := recorded(definition); len(fields) > 0 {
		s.log.WarnContext(ctx, "recorded, without effect here", "sandbox", box.id, "settings", fields)
	}
	s.work.Go(func() { s.run(box, below) })
	return box, nil
}

// admit registers a sandbox. The caller holds mu.
func (s *Server) admit(
	id, appID string, definition *pb.Sandbox, tags []*pb.SandboxTag, sources []*pb.SecretSource,
) (*sandbox, *image, error) {
	in := s.apps[appID]
	if in == nil {
		return nil, nil, status.Errorf(codes.NotFound, "App '%s' not found", appID)
	}
	below, err := s.imageReady(definition.GetImageId())
	if err != nil {
		return nil, nil, err
	}
	if below.archive != "" {
		return nil, nil, status.Errorf(
			codes.FailedPrecondition, "Image '%s' is one of a directory: it can be mounted only", below.id,
		)
	}
	if name := definition.GetName(); name != "" && s.named(in, name, false) != nil {
		return nil, nil, status.Errorf(
			codes.AlreadyExists, "Sandbox with name '%s' already exists in App '%s'", name, in.name,
		)
	}
	env, err := s.environmentOf(definition.GetSecretIds(), sources)
	if err != nil {
		return nil, nil, err
	}
	if id := definition.GetProxyId(); id != "" && !slices.Contains(s.opts.Proxies, strings.TrimPrefix(id, proxyPrefix)) {
		return nil, nil, status.Errorf(codes.NotFound, "Proxy '%s' not found", id)
	}
	if err := s.checkMounts(definition); err != nil {
		return nil, nil, err
	}
	if definition.GetIncludeOidcIdentityToken() {
		token, err := s.signer.sign(id, maxLife)
		if err != nil {
			return nil, nil, status.Error(codes.Internal, err.Error())
		}
		env = merge(env, secretsOf(map[string]string{"MODAL_IDENTITY_TOKEN": token}))
	}
	now := time.Now()
	box := &sandbox{
		id: id, task: newID("ta-"), second: strings.HasPrefix(id, "sb-") &&
			len(id) == len("sb-")+26, definition: definition, app: in, created: now,
		env: merge(secretsOf(below.env), env), workdir: cmp.Or(definition.GetWorkdir(), below.workdir),
		hasEntry: len(definition.GetEntrypointArgs()) > 0,
		ready:    make(chan struct{}), ended: make(chan struct{}), name: definition.GetName(), tags: tagMap(tags),
		commands: map[string]*command{}, lastActive: now, below: below, network: definition.GetNetworkAccess(),
	}
	if asksExitSnapshot(definition) {
		box.exit = &exitSnapshot{done: make(chan struct{})}
	}
	// A backend's sandbox that starts with its entry command also ends with it, too early for an exit snapshot.
	box.entryInside = box.hasEntry && box.exit == nil && definition.GetEnableSnapshot() && !definition.GetPtyInfo().
		GetEnabled() && s.keepsMemory()
	box.wanted, box.giveUp = context.WithCancel(s.ctx)
	if box.entry, err = s.newCommand("entry"); err != nil {
		return nil, nil, status.Error(codes.Internal, err.Error())
	}
	s.sandboxes[box.id], s.tasks[box.task] = box, box
	return box, below, nil
}

func tagMap(tags []*pb.SandboxTag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, tag := range tags {
		m[tag.GetTagName()] = tag.GetTagValue()
	}
	return m
}

func tagList(tags map[string]string) []*pb.SandboxTag {
	var list []*pb.SandboxTag
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, pb.SandboxTag_builder{TagName: name, TagValue: tags[name]}.Build())
	}
	return list
}

// checkDefinition rejects a definition that Modal rejects.
func checkDefinition(d *pb.Sandbox) error {
	if life := time.Duration(d.GetTimeoutSecs()) * time.Second; life > maxLife {
		return status.Errorf(codes.InvalidArgument, "timeout must be between 1 second and 24 hours, got %s", life)
	}
	if cloud := d.GetCloudProviderStr(); cloud != "" && !slices.Contains([]string{"aws", "gcp", "oci", "auto"}, cloud) {
		return status.Errorf(codes.InvalidArgument, "Invalid cloud provider: %s", cloud)
	}
	for _, region := range d.GetSchedulerPlacement().GetRegions() {
		if !regexp.MustCompile(`^(us|eu|ap|uk|ca|me|sa|af|mx|jp|il)(-[a-z]+)*(-?\d+)?$`).MatchString(region) {
			return status.Errorf(codes.InvalidArgument, "Invalid region: %s", region)
		}
	}
	for _, cidr := range d.GetInboundCidrAllowlist() {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return status.Errorf(codes.InvalidArgument, "Invalid CIDR (inbound): %s", cidr)
		}
	}
	return checkNetwork(d.GetNetworkAccess())
}

func checkNetwork(access *pb.NetworkAccess) error {
	for _, cidr := range access.GetAllowedCidrs() {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return status.Errorf(codes.InvalidArgument, "Invalid CIDR (outbound IPv4): %s", cidr)
		}
	}
	for _, domain := range access.GetAllowedDomains() {
		if domain != "*" && !regexp.MustCompile(`^(\*\.)?([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9-]+$`).
			MatchString(domain) {
			return status.Errorf(codes.InvalidArgument, "Invalid domain: %s", domain)
		}
	}
	return nil
}

// named finds an app's live sandbox by name. If there is none and terminated is true, it finds the newest one. The
// caller holds mu.
func (s *Server) named(in *app, name string, terminated bool) *sandbox {
	var best *sandbox
	for _, box := range s.sandboxes {
		if box.app != in || box.name != name || name == "" {
			continue
		}
		if box.live() {
			return box
		}
		if terminated && (best == nil || box.created.After(best.created)) {
			best = box
		}
	}
	return best
}

// sandbox finds a sandbox by id.
func (s *Server) sandbox(id string) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.sandboxes[id]
	if box == nil {
		return nil, status.Errorf(codes.NotFound, "Sandbox with ID '%s' not found", id)
	}
	return box, nil
}

// SandboxGetFromName finds a sandbox of either generation.
func (s *Server) SandboxGetFromName(
	_ context.Context, r *pb.SandboxGetFromNameRequest,
) (*pb.SandboxGetFromNameResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.appNamed(environmentName(r.GetEnvironmentName()), r.GetAppName())
	var box *sandbox
	if in != nil {
		box = s.named(in, r.GetSandboxName(), r.GetIncludeTerminated())
	}
	if box == nil {
		return nil, status.Errorf(
			codes.NotFound, "Sandbox with name '%s' not found in App '%s'", r.GetSandboxName(), r.GetAppName(),
		)
	}
	return pb.SandboxGetFromNameResponse_builder{
		SandboxId: box.id, Metadata: pb.SandboxHandleMetadata_builder{AppId: box.app.id, Result: box.result}.Build(),
	}.Build(), nil
}

// SandboxGetFromNameV2 is SandboxGetFromName.
func (s *Server) SandboxGetFromNameV2(
	ctx context.Context, r *pb.SandboxGetFromNameRequest,
) (*pb.SandboxGetFromNameResponse, error) {
	return s.SandboxGetFromName(ctx, r)
}

// SandboxSetName names a sandbox that has no name.
func (s *Server) SandboxSetName(_ context.Context, r *pb.SandboxSetNameRequest) (*pb.SandboxSetNameResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case box.name != "":
		return nil, status.Errorf(codes.FailedPrecondition, "Sandbox already has the name '%s'", box.name)
	case s.named(box.app, r.GetName(), false) != nil:
		return nil, status.Errorf(codes.AlreadyExists, "Sandbox with name '%s' already exists", r.GetName())
	}
	box.name = r.GetName()
	return &pb.SandboxSetNameResponse{}, nil
}

// SandboxWait waits for the end, up to the request's timeout.
func (s *Server) SandboxWait(ctx context.Context, r *pb.SandboxWaitRequest) (*pb.SandboxWaitResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(float64(r.GetTimeout()) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-box.ended:
	case <-timer.C:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return pb.SandboxWaitResponse_builder{
		Result: box.result, Metadata: pb.SandboxHandleMetadata_builder{AppId: box.app.id, Result: box.result}.Build(),
	}.Build(), nil
}

// SandboxWaitV2 is SandboxWait.
func (s *Server) SandboxWaitV2(ctx context.Context, r *pb.SandboxWaitRequest) (*pb.SandboxWaitResponse, error) {
	return s.SandboxWait(ctx, r)
}

// SandboxTerminate ends a sandbox. It has no effect on a sandbox that has ended.
func (s *Server) SandboxTerminate(
	ctx context.Context, r *pb.SandboxTerminateRequest,
) (*pb.SandboxTerminateResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	existing := box.result
	s.mu.Unlock()
	if err := s.terminate(context.WithoutCancel(ctx), box); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.SandboxTerminateResponse_builder{ExistingResult: existing}.Build(), nil
}

// SandboxTerminateV2 is SandboxTerminate.
func (s *Server) SandboxTerminateV2(
	ctx context.Context, r *pb.SandboxTerminateRequest,
) (*pb.SandboxTerminateResponse, error) {
	return s.SandboxTerminate(ctx, r)
}

// SandboxTagsSet replaces a sandbox's tags.
func (s *Server) SandboxTagsSet(_ context.Context, r *pb.SandboxTagsSetRequest) (*emptypb.Empty, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	box.tags = tagMap(r.GetTags())
	return &emptypb.Empty{}, nil
}

// SandboxTagsSetV2 is SandboxTagsSet.
func (s *Server) SandboxTagsSetV2(ctx context.Context, r *pb.SandboxTagsSetRequest) (*emptypb.Empty, error) {
	return s.SandboxTagsSet(ctx, r)
}

// SandboxTagsGet returns a sandbox's tags.
func (s *Server) SandboxTagsGet(_ context.Context, r *pb.SandboxTagsGetRequest) (*pb.SandboxTagsGetResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return pb.SandboxTagsGetResponse_builder{Tags: tagList(box.tags)}.Build(), nil
}

// SandboxTagsGetV2 is SandboxTagsGet.
func (s *Server) SandboxTagsGetV2(
	ctx context.Context, r *pb.SandboxTagsGetRequest,
) (*pb.SandboxTagsGetResponse, error) {
	return s.SandboxTagsGet(ctx, r)
}

// SandboxGetTaskId returns the task of a sandbox once it was scheduled.
//
//nolint:revive // its name is the protocol's
func (s *Server) SandboxGetTaskId(
	ctx context.Context, r *pb.SandboxGetTaskIdRequest,
) (*pb.SandboxGetTaskIdResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	if r.GetWaitUntilReady() || !box.second {
		if err := box.await(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !box.live() && box.startedAt.IsZero(): // it never got a machine
		return pb.SandboxGetTaskIdResponse_builder{TaskResult: box.result}.Build(), nil
	case !box.live():
		return pb.SandboxGetTaskIdResponse_builder{TaskId: &box.task, TaskResult: box.result}.Build(), nil
	}
	return pb.SandboxGetTaskIdResponse_builder{TaskId: &box.task}.Build(), nil
}

// SandboxGetTaskIdV2 is SandboxGetTaskId.
//
//nolint:revive // its name is the protocol's
func (s *Server) SandboxGetTaskIdV2(
	ctx context.Context, r *pb.SandboxGetTaskIdRequest,
) (*pb.SandboxGetTaskIdResponse, error) {
	return s.SandboxGetTaskId(ctx, r)
}

// SandboxGetCommandRouterAccess returns the address and a token for a sandbox's commands.
func (s *Server) SandboxGetCommandRouterAccess(
	_ context.Context, r *pb.SandboxGetCommandRouterAccessRequest,
) (*pb.SandboxGetCommandRouterAccessResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	token, err := s.signer.sign(box.task, s.opts.TokenLife)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.SandboxGetCommandRouterAccessResponse_builder{Jwt: token, Url: s.routerURL()}.Build(), nil
}

// TaskGetCommandRouterAccess is the same for sandboxes of the first generation.
func (s *Server) TaskGetCommandRouterAccess(
	_ context.Context, r *pb.TaskGetCommandRouterAccessRequest,
) (*pb.TaskGetCommandRouterAccessResponse, error) {
	s.mu.Lock()
	box := s.tasks[r.GetTaskId()]
	s.mu.Unlock()
	if box == nil {
		return nil, status.Errorf(codes.NotFound, "Task '%s' not found", r.GetTaskId())
	}
	token, err := s.signer.sign(box.task, s.opts.TokenLife)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.TaskGetCommandRouterAccessResponse_builder{Jwt: token, Url: s.routerURL()}.Build(), nil
}

// SandboxList lists one page of sandboxes, newest first.
func (s *Server) SandboxList(_ context.Context, r *pb.SandboxListRequest) (*pb.SandboxListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := tagMap(r.GetTags())
	var infos []*pb.SandboxInfo
	for _, box := range s.sandboxes {
		switch {
		case r.GetAppId() != "" && box.app.id != r.GetAppId(),
			r.GetAppId() == "" && box.app.environment != environmentName(r.GetEnvironmentName()),
			!r.GetIncludeFinished() && !box.live(),
			r.GetBeforeTimestamp() > 0 && unix(box.created) >= r.GetBeforeTimestamp():
			continue
		}
		fits := true
		for name, value := range wanted {
			got, there := box.tags[name]
			fits = fits && there && got == value
		}
		if fits {
			infos = append(infos, s.info(box))
		}
	}
	slices.SortFunc(infos, func(a, b *pb.SandboxInfo) int { return cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()) })
	return pb.SandboxListResponse_builder{Sandboxes: infos[:min(len(infos), cmp.Or(s.opts.Page, listPage))]}.Build(), nil
}

// SandboxListV2 is SandboxList.
func (s *Server) SandboxListV2(ctx context.Context, r *pb.SandboxListRequest) (*pb.SandboxListResponse, error) {
	return s.SandboxList(ctx, r)
}

// info describes a sandbox. The caller holds mu.
func (s *Server) info(box *sandbox) *pb.SandboxInfo {
	d := box.definition
	resources := d.GetResources()
	task := pb.TaskInfo_builder{
		Id: box.task, SandboxId: box.id, StartedAt: unix(box.startedAt), FinishedAt: unix(box.endedAt),
		EnqueuedAt: unix(box.created),
		Result:     box.result, GpuType: resources.GetGpuConfig().GetGpuType(), GpuConfig: resources.GetGpuConfig(),
	}
	return pb.SandboxInfo_builder{
		Id: box.id, CreatedAt: unix(box.created), TaskInfo: task.Build(), AppId: box.app.id, Tags: tagList(box.tags),
		Name:    box.name,
		ImageId: d.GetImageId(), Regions: d.GetSchedulerPlacement().
				GetRegions(), TimeoutSecs: d.GetTimeoutSecs(), IdleTimeoutSecs: new(d.GetIdleTimeoutSecs()),
		ResourceInfo: pb.ResourceInfo_builder{
			MemoryMb: pb.ResourceInfo_ResourceValue_builder{
				Value: resources.GetMemoryMb(), IsDefault: resources.GetMemoryMb() == 0,
			}.Build(),
			MilliCpu: pb.ResourceInfo_ResourceValue_builder{
				Value: resources.GetMilliCpu(), IsDefault: resources.GetMilliCpu() == 0,
			}.Build(),
			GpuType: resources.GetGpuConfig().
				GetGpuType(), MemoryMbMax: resources.GetMemoryMbMax(), MilliCpuMax: resources.GetMilliCpuMax(),
		}.Build(),
		ReadyAt: new(unix(box.readyAt)), ReadinessProbe: d.GetReadinessProbe(),
		Metadata: pb.SandboxHandleMetadata_builder{AppId: box.app.id, Result: box.result}.Build(),
	}.Build()
}

// spec returns the backend's launch spec.
func (b *sandbox) spec(s *Server, below *image) core.Spec {
	d := b.definition
	spec := core.Spec{
		Name: backendName(b.id), App: "modal", Secrets: b.env, Timeout: core.Duration(b.life()),
		Network: s.network(d.GetNetworkAccess()),
	}
	switch {
	case b.from != nil:
		spec.Checkpoint = b.from.checkpoint
	case b.entryInside:
		spec = below.on(spec)
		spec.Command = b.entryCommand(below)
	default:
		spec = below.on(spec)
	}
	if b.exit != nil {
		spec.Timeout += core.Duration(endGrace)
	}
	caps := s.opts.Backend.Capabilities()
	if most := d.GetResources().GetMemoryMbMax(); most > 0 && caps.Can(core.CapMemory) {
		spec.Memory = core.Bytes(most) * core.MiB
	}
	if caps.Can(core.CapPorts) && admits(d, loopback) {
		for _, port := range d.GetOpenPorts().GetPorts() {
			spec.Ports = append(spec.Ports, core.Port{Sandbox: int(port.GetPort())})
		}
	}
	return spec
}

// life returns the lifetime of a sandbox.
func (b *sandbox) life() time.Duration {
	if seconds := b.definition.GetTimeoutSecs(); seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultLife
}

// network returns the requested network access of a sandbox. If the backend has no allow-lists, it can be narrower.
func (s *Server) network(access *pb.NetworkAccess) core.Network {
	if access.GetNetworkAccessType() == pb.NetworkAccess_OPEN || access == nil {
		return core.Network{Mode: s.outside()}
	}
	network, caps := allowed(access), s.opts.Backend.Capabilities()
	switch {
	case network.Mode == core.NetworkAll:
		return core.Network{Mode: s.outside()}
	case network.Mode == core.NetworkAllow && caps.Can(core.CapNetAllow):
		return network
	case caps.Can(core.CapNetNone):
		return core.Network{Mode: core.NetworkNone}
	}
	return core.Network{}
}
