package modaltest

import (
	"context"
	"errors"
	"io"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// chunk is the most output in one message, in bytes.
const chunk = 256 << 10

// router is the task command router, which runs commands in sandboxes.
type router struct {
	pb.UnimplementedTaskCommandRouterServer
	server *Server
}

// box waits until a task's sandbox runs and returns it. The caller's token must be for that task.
func (r *router) box(ctx context.Context, task string) (*sandbox, error) {
	if taskOf(ctx) != task {
		return nil, status.Error(codes.PermissionDenied, "the token is for another task")
	}
	r.server.mu.Lock()
	box := r.server.tasks[task]
	r.server.mu.Unlock()
	if box == nil {
		return nil, status.Errorf(codes.NotFound, "Task '%s' not found", task)
	}
	if err := box.await(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

// running is like box, but returns an error if the sandbox has ended.
func (r *router) running(ctx context.Context, task string) (*sandbox, error) {
	box, err := r.box(ctx, task)
	if err != nil {
		return nil, err
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if !box.live() {
		return nil, status.Error(codes.NotFound, "the Sandbox has already finished")
	}
	return box, nil
}

// find finds a command of a task.
func (r *router) find(ctx context.Context, task, exec string) (*command, error) {
	box, err := r.box(ctx, task)
	if err != nil {
		return nil, err
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	c := box.commands[exec]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "exec '%s' not found", exec)
	}
	return c, nil
}

// TaskExecStart starts a command. A second call with the same id has no effect.
func (r *router) TaskExecStart(
	ctx context.Context, request *pb.TaskExecStartRequest,
) (*pb.TaskExecStartResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	if request.GetContainerId() != "" {
		return nil, status.Error(codes.Unimplemented, "this server has no sidecar containers")
	}
	s := r.server
	s.mu.Lock()
	env, err := s.environmentOf(request.GetSecretIds(), request.GetSecretSources())
	again := box.commands[request.GetExecId()] != nil
	var c *command
	if err == nil && !again {
		if c, err = s.newCommand(request.GetExecId()); err == nil {
			box.commands[c.id] = c
		}
	}
	s.mu.Unlock()
	if err != nil || again {
		return &pb.TaskExecStartResponse{}, err
	}
	if isFSTool(request.GetCommandArgs()) {
		return &pb.TaskExecStartResponse{}, s.startFSTool(ctx, box, c, request.GetCommandArgs())
	}
	spec := core.ExecSpec{
		Command: request.GetCommandArgs(), Workdir: request.GetWorkdir(), Env: request.GetEnv(), Secrets: env,
		Timeout: time.Duration(request.GetTimeoutSecs()) * time.Second,
	}
	if spec.Workdir == "" {
		spec.Workdir = box.workdir
	}
	if pty := request.GetPtyInfo(); pty.GetEnabled() {
		spec.TTY, spec.Size = true, terminalSize(pty)
		spec.Secrets = merge(secretsOf(terminalEnv(pty)), spec.Secrets)
	}
	if request.GetStdoutConfig() == pb.TaskExecStdoutConfig_TASK_EXEC_STDOUT_CONFIG_DEVNULL {
		spec.Stdout = io.Discard
	}
	if request.GetStderrConfig() == pb.TaskExecStderrConfig_TASK_EXEC_STDERR_CONFIG_DEVNULL {
		spec.Stderr = io.Discard
	}
	if err := s.start(ctx, box, c, spec); err != nil {
		return nil, statusOf(err)
	}
	return &pb.TaskExecStartResponse{}, nil
}

// statusOf converts the backend's errors to Modal's.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	switch core.KindOf(err) {
	case core.KindUsage:
		return status.Error(codes.InvalidArgument, err.Error())
	case core.KindNotFound, core.KindConflict:
		return status.Error(codes.NotFound, err.Error())
	case core.KindExhausted:
		return status.Error(codes.ResourceExhausted, err.Error())
	case core.KindCanceled, core.KindTimeout:
		return status.FromContextError(err).Err()
	case core.KindInternal, core.KindUnsupported, core.KindUnavailable, core.KindUnauthorized:
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// TaskExecStdioRead streams a command's output from an offset to its end.
func (r *router) TaskExecStdioRead(
	request *pb.TaskExecStdioReadRequest, stream pb.TaskCommandRouter_TaskExecStdioReadServer,
) error {
	c, err := r.find(stream.Context(), request.GetTaskId(), request.GetExecId())
	if err != nil {
		return err
	}
	from := c.stdout
	if request.GetFileDescriptor() == pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR {
		from = c.stderr
	}
	offset := int64(request.GetOffset()) //nolint:gosec // an offset in a file
	for {
		data, err := from.next(stream.Context(), offset, chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(pb.TaskExecStdioReadResponse_builder{Data: data}.Build()); err != nil {
			return err
		}
		offset += int64(len(data))
	}
}

// TaskExecStdinWrite writes input to a command.
func (r *router) TaskExecStdinWrite(
	ctx context.Context, request *pb.TaskExecStdinWriteRequest,
) (*pb.TaskExecStdinWriteResponse, error) {
	c, err := r.find(ctx, request.GetTaskId(), request.GetExecId())
	if err != nil {
		return nil, err
	}
	return &pb.TaskExecStdinWriteResponse{}, c.write(request.GetOffset(), request.GetData(), request.GetEof())
}

// TaskExecStdinStatus returns the number of accepted input bytes.
func (r *router) TaskExecStdinStatus(
	ctx context.Context, request *pb.TaskExecStdinStatusRequest,
) (*pb.TaskExecStdinStatusResponse, error) {
	c, err := r.find(ctx, request.GetTaskId(), request.GetExecId())
	if err != nil {
		return nil, err
	}
	written, closed := c.status()
	return pb.TaskExecStdinStatusResponse_builder{NumBytesWritten: written, Closed: closed}.Build(), nil
}

// TaskExecStdinWriteStream writes a stream of input to a command. Only its End message closes the command's input.
func (r *router) TaskExecStdinWriteStream(stream pb.TaskCommandRouter_TaskExecStdinWriteStreamServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first message must be the start")
	}
	c, err := r.find(stream.Context(), start.GetTaskId(), start.GetExecId())
	if err != nil {
		return err
	}
	offset := start.GetOffset()
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pb.TaskExecStdinWriteStreamResponse{})
		}
		if err != nil {
			return err
		}
		if message.HasEnd() {
			if err := c.write(offset, nil, true); err != nil {
				return err
			}
			return stream.SendAndClose(&pb.TaskExecStdinWriteStreamResponse{})
		}
		if err := c.write(offset, message.GetData(), false); err != nil {
			return err
		}
		offset += uint64(len(message.GetData()))
	}
}

// TaskExecPoll returns the end of a command if it has ended.
func (r *router) TaskExecPoll(ctx context.Context, request *pb.TaskExecPollRequest) (*pb.TaskExecPollResponse, error) {
	c, err := r.find(ctx, request.GetTaskId(), request.GetExecId())
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		code, signal := c.exitStatus()
		return pb.TaskExecPollResponse_builder{Code: code, Signal: signal}.Build(), nil
	default:
		return &pb.TaskExecPollResponse{}, nil
	}
}

// TaskExecWait waits for a command's end.
func (r *router) TaskExecWait(ctx context.Context, request *pb.TaskExecWaitRequest) (*pb.TaskExecWaitResponse, error) {
	c, err := r.find(ctx, request.GetTaskId(), request.GetExecId())
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		code, signal := c.exitStatus()
		return pb.TaskExecWaitResponse_builder{Code: code, Signal: signal}.Build(), nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// exitStatus returns a command's end in Modal's form: a code or a signal. The code is -1 if the end was lost with the
// sandbox.
func (c *command) exitStatus() (code, signal *int32) {
	value := int32(c.exit.Code) //nolint:gosec // 0 to 255
	switch {
	case c.err != nil:
		return new(int32(-1)), nil
	case c.exit.TimedOut:
		return nil, new(int32(9))
	case c.exit.Signal != 0:
		value = int32(c.exit.Signal) //nolint:gosec // 1 to 64
		return nil, &value
	}
	return &value, nil
}

// SandboxWaitUntilReady waits until the readiness probe succeeds.
func (r *router) SandboxWaitUntilReady(
	ctx context.Context, request *pb.SandboxWaitUntilReadyTcrRequest,
) (*pb.SandboxWaitUntilReadyTcrResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	at, err := r.server.probe(ctx, box)
	if err != nil {
		return nil, err
	}
	return pb.SandboxWaitUntilReadyTcrResponse_builder{ReadyAt: unix(at)}.Build(), nil
}

// SandboxStdioReadV2 streams the output of the entry command.
func (r *router) SandboxStdioReadV2(
	request *pb.SandboxStdioReadV2Request, stream pb.TaskCommandRouter_SandboxStdioReadV2Server,
) error {
	box, err := r.box(stream.Context(), request.GetTaskId())
	if err != nil {
		return err
	}
	from := box.entry.stdout
	if request.GetFileDescriptor() == pb.SandboxStdioFileDescriptor_SANDBOX_STDIO_FILE_DESCRIPTOR_STDERR {
		from = box.entry.stderr
	}
	offset := int64(request.GetOffset()) //nolint:gosec // an offset in a file
	for {
		data, err := from.next(stream.Context(), offset, chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		//nolint:gosec // not negative
		if err := stream.Send(
			pb.SandboxStdioReadV2Response_builder{Data: data, StartingOffset: uint64(offset)}.Build(),
		); err != nil {
			return err
		}
		offset += int64(len(data))
	}
}

// SandboxStdinWriteV2 writes input to the entry command.
func (r *router) SandboxStdinWriteV2(
	ctx context.Context, request *pb.SandboxStdinWriteV2Request,
) (*pb.SandboxStdinWriteV2Response, error) {
	box, err := r.box(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	r.server.active(box, 0, false)
	return &pb.SandboxStdinWriteV2Response{}, box.entry.write(request.GetOffset(), request.GetData(), request.GetEof())
}
