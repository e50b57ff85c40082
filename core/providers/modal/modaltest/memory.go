package modaltest

import (
	"context"
	"errors"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/seed-0724f904/sb/core"
)

// memoryLife is the retention of a memory snapshot (Modal's guide to sandbox snapshots).
const memoryLife = 7 * 24 * time.Hour

// memory is a memory snapshot of a sandbox, from which others can resume.
type memory struct {
	id  string
	key string // the client's idempotency key, which identifies a retry
	// of is the source sandbox. tags are its tags at that time.
	of     *sandbox
	tags   map[string]string
	expire time.Time
	// checkpoint is the backend's checkpoint.
	checkpoint string
}

// keepsMemory reports whether the backend supports memory snapshots. It must also report the output and the end of
// entry commands.
func (s *Server) keepsMemory() bool {
	_, keeps := s.opts.Backend.(core.Checkpointer)
	_, attaches := s.opts.Backend.(core.Attacher)
	_, waits := s.opts.Backend.(core.Waiter)
	return keeps && attaches && waits
}

// TaskSnapshotMemory takes a memory snapshot of a sandbox of the second generation.
func (r *router) TaskSnapshotMemory(
	ctx context.Context, request *pb.TaskSnapshotMemoryRequest,
) (*pb.TaskSnapshotMemoryResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	made, err := r.server.keepMemory(ctx, box, "sn-"+newULID(), request.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return pb.TaskSnapshotMemoryResponse_builder{SnapshotId: made.id}.Build(), nil
}

// SandboxSnapshot takes a memory snapshot of a sandbox of the first generation.
func (s *Server) SandboxSnapshot(
	ctx context.Context, r *pb.SandboxSnapshotRequest,
) (*pb.SandboxSnapshotResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	if err := box.await(ctx); err != nil {
		return nil, err
	}
	made, err := s.keepMemory(ctx, box, newID("sn-"), "")
	if err != nil {
		return nil, err
	}
	return pb.SandboxSnapshotResponse_builder{SnapshotId: made.id}.Build(), nil
}

// SandboxSnapshotWait returns the result of a snapshot, which is complete once it has an id.
func (s *Server) SandboxSnapshotWait(
	_ context.Context, r *pb.SandboxSnapshotWaitRequest,
) (*pb.SandboxSnapshotWaitResponse, error) {
	if _, err := s.memory(r.GetSnapshotId()); err != nil {
		return nil, err
	}
	return pb.SandboxSnapshotWaitResponse_builder{Result: success()}.Build(), nil
}

// SandboxSnapshotGet finds a snapshot.
func (s *Server) SandboxSnapshotGet(
	_ context.Context, r *pb.SandboxSnapshotGetRequest,
) (*pb.SandboxSnapshotGetResponse, error) {
	kept, err := s.memory(r.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return pb.SandboxSnapshotGetResponse_builder{
		SnapshotId: kept.id, HandleMetadata: pb.SandboxSnapshotHandleMetadata_builder{IsV2: kept.of.second}.Build(),
	}.Build(), nil
}

// SandboxRestore creates a sandbox that resumes from a snapshot of the first generation.
func (s *Server) SandboxRestore(ctx context.Context, r *pb.SandboxRestoreRequest) (*pb.SandboxRestoreResponse, error) {
	if r.GetReplaceVolumeMounts() {
		return nil, status.Error(codes.Unimplemented, "this server does not replace the volumes of a snapshot")
	}
	box, err := s.restore(
		ctx, "sb-"+randomText(v1Alphabet, 22), r.GetSnapshotId(), r.GetSandboxNameOverrideType(), r.GetSandboxNameOverride(),
	)
	if err != nil {
		return nil, err
	}
	return pb.SandboxRestoreResponse_builder{SandboxId: box.id}.Build(), nil
}

// SandboxRestoreV2 creates a sandbox that resumes from a snapshot of the second generation.
func (s *Server) SandboxRestoreV2(
	ctx context.Context, r *pb.SandboxRestoreV2Request,
) (*pb.SandboxRestoreV2Response, error) {
	box, err := s.restore(
		ctx, "sb-"+newULID(), r.GetSnapshotId(), r.GetSandboxNameOverrideType(), r.GetSandboxNameOverride(),
	)
	if err != nil {
		return nil, err
	}
	token, err := s.signer.sign(box.task, s.opts.TokenLife)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.SandboxRestoreV2Response_builder{
		SandboxId: box.id, TaskId: box.task, Metadata: pb.SandboxHandleMetadata_builder{AppId: box.app.id}.Build(),
		CommandRouterAccess: pb.CommandRouterAccess_builder{Jwt: token, Url: s.routerURL()}.Build(),
	}.Build(), nil
}

// memory finds a snapshot that has not expired.
func (s *Server) memory(id string) (*memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.memories[id]
	if kept == nil || time.Now().After(kept.expire) {
		return nil, status.Errorf(codes.NotFound, "Sandbox snapshot '%s' not found", id)
	}
	return kept, nil
}

// keepMemory takes a memory snapshot of a sandbox, which keeps running. A repeated key returns the same snapshot.
func (s *Server) keepMemory(ctx context.Context, box *sandbox, id, key string) (*memory, error) {
	s.mu.Lock()
	live, tags := box.live(), box.tags
	for _, kept := range s.memories {
		if key != "" && kept.key == key && kept.of == box {
			s.mu.Unlock()
			return kept, nil
		}
	}
	s.mu.Unlock()
	checkpointer, ok := s.opts.Backend.(core.Checkpointer)
	switch {
	case !live:
		return nil, status.Error(codes.FailedPrecondition, "the Sandbox has already finished")
	case !box.definition.GetEnableSnapshot():
		return nil, status.Error(codes.FailedPrecondition, "the Sandbox was not created with snapshots enabled")
	case !ok || box.hasEntry && !box.entryInside:
		return nil, status.Error(codes.Unimplemented, "this server cannot keep the memory of such a Sandbox")
	}
	made, err := checkpointer.Checkpoint(ctx, box.backend.ID, s.opts.SnapshotPrefix+backendName(id))
	if err != nil {
		return nil, statusOf(err)
	}
	kept := &memory{id: id, key: key, of: box, tags: tags, expire: time.Now().Add(memoryLife), checkpoint: made.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memories[id] = kept
	return kept, nil
}

// restore creates a sandbox that resumes from a snapshot. how and name determine its name.
func (s *Server) restore(
	ctx context.Context, id, snapshot string, how pb.SandboxRestoreRequest_SandboxNameOverrideType, name string,
) (*sandbox, error) {
	kept, err := s.memory(snapshot)
	if err != nil {
		return nil, err
	}
	definition, ok := proto.Clone(kept.of.definition).(*pb.Sandbox)
	if !ok {
		return nil, status.Error(codes.Internal, "the definition cannot be copied")
	}
	switch how {
	case pb.SandboxRestoreRequest_SANDBOX_NAME_OVERRIDE_TYPE_NONE:
		definition.ClearName()
	case pb.SandboxRestoreRequest_SANDBOX_NAME_OVERRIDE_TYPE_STRING:
		definition.SetName(name)
	case pb.SandboxRestoreRequest_SANDBOX_NAME_OVERRIDE_TYPE_UNSPECIFIED:
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	s.mu.Lock()
	box, below, err := s.admit(id, kept.of.app.id, definition, tagList(kept.tags), nil)
	if err == nil {
		box.env, box.from = kept.of.env, kept
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.work.Go(func() { s.run(box, below) })
	return box, nil
}

// follow attaches to the entry command of the backend's sandbox. It records the command's output and its end.
func (s *Server) follow(box *sandbox) error {
	attacher, ok := s.opts.Backend.(core.Attacher)
	if !ok {
		return errors.New("the backend cannot attach to commands")
	}
	c := box.entry
	process, err := attacher.Attach(
		s.ctx, box.backend.ID, "0", core.Streams{Stdout: c.stdout, Stderr: c.stderr, Replay: true},
	)
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(s.ctx)
	c.mu.Lock()
	c.started, c.process, c.cancel = true, process, cancel
	c.mu.Unlock()
	s.work.Go(func() {
		defer cancel()
		defer context.AfterFunc(life, c.spoolsEnd)()
		exit, err := process.Wait(life)
		c.finish(exit, err)
		_ = process.Close()
	})
	return nil
}
