package modal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

const (
	// memoryPrefix is the prefix of the ids of Modal's memory snapshots.
	memoryPrefix = "sn-"
	// memoryLife is the retention of a memory snapshot (Modal's guide to sandbox snapshots, "Snapshot Retention").
	memoryLife = 7 * 24 * time.Hour
)

// Checkpoint implements core.Checkpointer with Modal's experimental memory snapshots. Modal cannot name, list or remove
// them, so this machine stores the name and the sandbox's spec. Only a sandbox that was launched with
// modalspec.Section.MemorySnapshot has memory snapshots.
func (p *Provider) Checkpoint(ctx context.Context, id, name string) (core.Checkpoint, error) {
	if strings.HasPrefix(name, memoryPrefix) {
		return core.Checkpoint{}, core.Errorf(
			core.KindUsage, "modal.checkpoint", name, "a checkpoint's name cannot begin with %s, because Modal's ids do",
			memoryPrefix,
		)
	}
	var d described
	var r *router
	err := client.Together(
		func() (err error) { r, err = p.router(ctx, id, false); return err },
		func() (err error) { d, err = p.describe(ctx, id); return err },
	)
	if err != nil {
		return core.Checkpoint{}, err
	}
	sb := d.sandbox("")
	if !sb.State.Live() {
		return core.Checkpoint{}, p.notRunning(ctx, id)
	}
	if m, err := modalspec.Of(sb.Spec); d.tags[recordTag] != "" && (err != nil || !m.MemorySnapshot) {
		return core.Checkpoint{}, core.Errorf(
			core.KindConflict, "modal.checkpoint", sb.Name, "Modal saves the memory only of a sandbox that was launched "+
				"with memory_snapshot",
		).
			WithHint("launch it with: --modal memory_snapshot=true")
	}
	store := p.memories(r.client)
	if _, err := store.read(name); err == nil {
		return core.Checkpoint{}, memoryExists(name)
	}
	made := core.Checkpoint{Name: name, Provider: Name, Sandbox: id, Of: sb.Name, Created: time.Now().UTC(), Spec: sb.Spec}
	made.Expires = made.Created.Add(memoryLife)
	if made.ID, err = r.keepMemory(ctx); err != nil {
		return core.Checkpoint{}, p.failed(ctx, "checkpoint", id, err)
	}
	err = store.add(made)
	if errors.Is(err, fs.ErrExist) {
		return core.Checkpoint{}, memoryExists(name)
	}
	return made, core.Wrap("modal.checkpoint", name, err)
}

func memoryExists(name string) error {
	return core.Errorf(core.KindConflict, "modal.checkpoint", name, "there is a checkpoint %q already", name).
		WithHint("choose another name, or remove it: sb checkpoint rm %s", name)
}

func noMemory(name string) error {
	return core.Errorf(core.KindNotFound, "modal.checkpoint", name, "there is no checkpoint %q", name).
		WithHint("sb checkpoint ls lists them")
}

// keepMemory takes a memory snapshot of the sandbox and returns its id.
func (r *router) keepMemory(ctx context.Context) (string, error) {
	if !firstGeneration(r.sandbox) {
		key := uuid.NewString()
		reply, err := call(ctx, r, func(ctx context.Context) (*pb.TaskSnapshotMemoryResponse, error) {
			return r.stub.TaskSnapshotMemory(
				ctx, pb.TaskSnapshotMemoryRequest_builder{TaskId: r.task, IdempotencyKey: key}.Build(),
			)
		})
		return reply.GetSnapshotId(), err
	}
	raw, err := r.client.Raw(ctx)
	if err != nil {
		return "", err
	}
	made, err := raw.SandboxSnapshot(ctx, pb.SandboxSnapshotRequest_builder{SandboxId: r.sandbox}.Build())
	for err == nil {
		var waited *pb.SandboxSnapshotWaitResponse
		waited, err = raw.SandboxSnapshotWait(
			ctx, pb.SandboxSnapshotWaitRequest_builder{SnapshotId: made.GetSnapshotId(), Timeout: longPoll}.Build(),
		)
		switch result := waited.GetResult(); result.GetStatus() { //nolint:exhaustive // all others are failures
		case pb.GenericResult_GENERIC_STATUS_SUCCESS:
			return made.GetSnapshotId(), nil
		case pb.GenericResult_GENERIC_STATUS_UNSPECIFIED:
		default:
			return "", core.Errorf(
				core.KindInternal, "modal.checkpoint", r.sandbox, "%s", cmp.Or(result.GetException(), "Modal could not save it"),
			)
		}
	}
	return "", err
}

// Checkpoints implements core.Checkpointer. It returns the unexpired checkpoints that were made on this machine.
func (p *Provider) Checkpoints(context.Context) ([]core.Checkpoint, error) {
	c, err := p.connect()
	if client.NoAccount(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := p.memories(c).list(time.Now())
	return list, core.Wrap("modal.checkpoint", "", err)
}

// FindCheckpoint implements core.CheckpointFinder. It finds a checkpoint of another client by its id at Modal.
func (p *Provider) FindCheckpoint(ctx context.Context, id string) (core.Checkpoint, error) {
	if !strings.HasPrefix(id, memoryPrefix) {
		return core.Checkpoint{}, noMemory(id)
	}
	_, raw, err := p.control(ctx, "checkpoint")
	if client.NoAccount(err) {
		return core.Checkpoint{}, noMemory(id)
	}
	if err != nil {
		return core.Checkpoint{}, err
	}
	_, err = raw.SandboxSnapshotGet(ctx, pb.SandboxSnapshotGetRequest_builder{SnapshotId: id}.Build())
	if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument {
		return core.Checkpoint{}, noMemory(id)
	}
	return core.Checkpoint{Name: id, ID: id, Provider: Name}, client.Classify("checkpoint", id, err)
}

// RemoveCheckpoint implements core.Checkpointer. Modal has no call for it, so RemoveCheckpoint removes only the local
// entry. The snapshot expires later.
func (p *Provider) RemoveCheckpoint(_ context.Context, name string) error {
	if strings.HasPrefix(name, memoryPrefix) {
		return core.Errorf(
			core.KindUnsupported, "modal.checkpoint", name,
			"Modal removes no memory snapshots; they end %d days after they were made", int(memoryLife/(24*time.Hour)),
		)
	}
	c, err := p.connect()
	if client.NoAccount(err) {
		return noMemory(name)
	}
	if err != nil {
		return err
	}
	err = p.memories(c).remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return noMemory(name)
	}
	return core.Wrap("modal.checkpoint", name, err)
}

// restore launches from a checkpoint. A launch can change only the name and the labels. Modal takes all else from the
// checkpoint.
func (p *Provider) restore(ctx context.Context, spec core.Spec, lease core.Lease) (core.Sandbox, error) {
	c, err := p.connect()
	if err != nil {
		return core.Sandbox{}, err
	}
	kept := core.Checkpoint{ID: spec.Checkpoint}
	if !strings.HasPrefix(spec.Checkpoint, memoryPrefix) {
		if kept, err = p.memories(c).read(spec.Checkpoint); err != nil {
			return core.Sandbox{}, noMemory(spec.Checkpoint)
		}
	}
	if field := changedField(spec, kept.Spec); field != "" {
		return core.Sandbox{}, core.Errorf(
			core.KindUnsupported, "modal.launch", spec.Checkpoint,
			"%s: Modal restores a checkpoint as it was; a launch can change only its name and labels", field,
		)
	}
	was, labels, name := kept.Spec, spec.Labels, spec.Name
	spec = was.Clone()
	spec.Provider, spec.Name, spec.Labels, spec.Checkpoint = Name, name, labels, kept.Name
	if kept.Name == "" { // a checkpoint of another client, without a local entry
		spec.Checkpoint, spec.Modal = kept.ID, modalspec.Section{MemorySnapshot: true}.JSON()
	}
	l := &launching{provider: p, client: c, spec: spec, lease: lease, lookups: &client.Lookups{Client: c}}
	return l.restore(ctx, kept)
}

// changedField returns the name of a field in which the spec differs from the checkpoint's, or "". Unset fields do not
// count.
func changedField(spec, kept core.Spec) string {
	for _, field := range []struct {
		name string
		same bool
	}{
		{"app", spec.App == "" || spec.App == kept.App},
		{"cpu", spec.CPU == 0 || spec.CPU == kept.CPU},
		{"memory", spec.Memory == 0 || spec.Memory == kept.Memory},
		{"gpu", spec.GPU.IsZero() || spec.GPU == kept.GPU},
		{"timeout", spec.Timeout == 0 || spec.Timeout == kept.Timeout},
		{"idle_timeout", spec.IdleTimeout == 0 || spec.IdleTimeout == kept.IdleTimeout},
		{"workdir", spec.Workdir == "" || spec.Workdir == kept.Workdir},
		{"env", len(spec.Env) == 0 || maps.Equal(spec.Env, kept.Env)},
		{"secrets", len(spec.Secrets) == 0},
		{"volumes", len(spec.Volumes) == 0 || slices.Equal(spec.Volumes, kept.Volumes)},
		{"ports", len(spec.Ports) == 0 || slices.Equal(spec.Ports, kept.Ports)},
		{"network", spec.Network.Mode == core.NetworkDefault || spec.Network.Mode == kept.Network.Mode &&
			slices.Equal(spec.Network.Allow, kept.Network.Allow)},
		{"inbound", len(spec.Inbound) == 0 || slices.Equal(spec.Inbound, kept.Inbound)},
		{"ready", spec.Ready == nil || reflect.DeepEqual(spec.Ready, kept.Ready)},
		{"modal", spec.Modal == nil || bytes.Equal(spec.Modal, kept.Modal)},
	} {
		if !field.same {
			return field.name
		}
	}
	return ""
}

// restore creates the sandbox from the checkpoint and stores the spec and the lease in its tags.
func (l *launching) restore(ctx context.Context, kept core.Checkpoint) (core.Sandbox, error) {
	var seen replies
	ctx = client.WithWitness(ctx, client.Witness{Reply: seen.keep})
	snapshot, err := l.client.SDK.SandboxSnapshots.FromID(ctx, kept.ID, nil)
	if err != nil {
		return core.Sandbox{}, client.Classify("launch", kept.ID, err)
	}
	sandbox, err := l.client.SDK.Sandboxes.ExperimentalFromSnapshot(
		ctx, snapshot, &sdk.SandboxExperimentalFromSnapshotParams{Name: &l.spec.Name},
	)
	if err != nil {
		return core.Sandbox{}, client.Classify("launch", kept.ID, err)
	}
	defer func() { _ = sandbox.Detach() }()
	id := sandbox.SandboxID
	if reply := seen.restored(); reply != nil {
		l.client.Cache.Put(client.CachedTasks, id, reply.GetTaskId())
		l.provider.remember(id, l.client, reply.GetTaskId(), reply.GetCommandRouterAccess())
	}
	if err := l.provider.setTags(ctx, l.client, id, tagsOf(l.spec, l.lease)); err != nil {
		return core.Sandbox{}, errors.Join(err, l.undo(ctx, id))
	}
	return l.launched(ctx, id)
}
