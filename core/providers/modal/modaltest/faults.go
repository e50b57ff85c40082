package modaltest

import (
	"context"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Faults makes a Server slow or unreliable. Its methods may be called while the Server runs.
type Faults struct {
	mu         sync.Mutex
	latency    time.Duration
	scheduling time.Duration
	planned    map[string][]Fault
	cut        map[string]int64
	stalls     map[string]stall
	link       stall
	rate       int64
}

// stall is a pause in a stream.
type stall struct {
	after int64 // bytes
	pause time.Duration
}

// Fault is a failure that replaces or follows the work of one call.
type Fault struct {
	// Code and Message are the error.
	Code    codes.Code
	Message string
	// RetryAfter is the delay in the reply after which the client may retry, as in Modal's throttling.
	RetryAfter time.Duration
	// After does the work and drops only its answer. A retry to the control plane with the same idempotency key gets the
	// answer.
	After bool
}

// SetLatency delays every call by d before its work.
func (f *Faults) SetLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

// SetScheduling delays the start of new sandboxes by d, as if no machine were free.
func (f *Faults) SetScheduling(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scheduling = d
}

func (f *Faults) wait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scheduling
}

// Plan makes the next calls of a method fail, with one fault for each call. A fault without a code lets its call
// succeed. The method is the name of an RPC, such as "SandboxCreateV2".
func (f *Faults) Plan(method string, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.planned == nil {
		f.planned = map[string][]Fault{}
	}
	f.planned[method] = append(f.planned[method], faults...)
}

// Cut breaks every stream of a method after so many bytes; 0 turns this off.
func (f *Faults) Cut(method string, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut == nil {
		f.cut = map[string]int64{}
	}
	f.cut[method] = bytes
}

// Stall pauses every stream of a method once, after it has carried so many bytes; a pause of 0 turns this off.
func (f *Faults) Stall(method string, bytes int64, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalls == nil {
		f.stalls = map[string]stall{}
	}
	f.stalls[method] = stall{bytes, pause}
}

// StallLink pauses each connection once after the server has sent so many bytes. All its streams and answers wait. A
// pause of 0 turns this off.
func (f *Faults) StallLink(bytes int64, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link = stall{bytes, pause}
}

// SlowLink limits each connection to rate bytes per second to its client; 0 means no limit.
func (f *Faults) SlowLink(rate int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// onLink returns the pause of a connection that has sent before bytes, for the next bytes.
func (f *Faults) onLink(before, bytes int64) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rate > 0 {
		wait = time.Duration(bytes) * time.Second / time.Duration(f.rate)
	}
	if before <= f.link.after && f.link.after < before+bytes {
		wait += f.link.pause
	}
	return wait
}

func (f *Faults) stalled(method string) stall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stalls[method]
}

func (f *Faults) next(method string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := f.planned[method]
	if len(queue) == 0 {
		return Fault{}, false
	}
	f.planned[method] = queue[1:]
	return queue[0], queue[0].Code != codes.OK
}

func (f *Faults) limits(method string) (time.Duration, int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency, f.cut[method]
}

func (f Fault) err() error {
	st := status.New(f.Code, f.Message)
	if f.RetryAfter > 0 {
		if with, err := st.WithDetails(
			pb.RPCRetryPolicy_builder{RetryAfterSecs: float32(f.RetryAfter.Seconds())}.Build(),
		); err == nil {
			st = with
		}
	}
	return st.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) faultUnary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	name := method(info.FullMethod)
	latency, _ := s.opts.Faults.limits(name)
	if err := pause(ctx, latency); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	fault, planned := s.opts.Faults.next(name)
	if planned && !fault.After {
		return nil, fault.err()
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	key := header(headers, "x-idempotency-key")
	s.mu.Lock()
	reply, again := s.lost[key]
	s.mu.Unlock()
	if again {
		return reply, nil
	}
	reply, err := next(ctx, request)
	if planned && err == nil && key != "" {
		s.mu.Lock()
		s.lost[key] = reply
		s.mu.Unlock()
	}
	if planned {
		return nil, fault.err()
	}
	return reply, err
}

func (s *Server) faultStream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	name := method(info.FullMethod)
	latency, cut := s.opts.Faults.limits(name)
	if err := pause(stream.Context(), latency); err != nil {
		return status.FromContextError(err).Err()
	}
	if fault, planned := s.opts.Faults.next(name); planned {
		return fault.err()
	}
	if cut > 0 {
		stream = &cutStream{ServerStream: stream, left: cut}
	}
	if stalled := s.opts.Faults.stalled(name); stalled.pause > 0 {
		stream = &stallStream{ServerStream: stream, stall: stalled}
	}
	return next(srv, stream)
}

// stallStream pauses once after a number of output bytes.
type stallStream struct {
	grpc.ServerStream
	stall
	sent int64
}

func (c *stallStream) SendMsg(message any) error {
	switch m := message.(type) {
	case interface{ GetData() []byte }:
		c.sent += int64(len(m.GetData()))
	case *pb.TaskLogsBatch:
		for _, item := range m.GetItems() {
			c.sent += int64(len(item.GetData()))
		}
	}
	if c.pause > 0 && c.sent > c.after {
		if err := pause(c.Context(), c.pause); err != nil {
			return status.FromContextError(err).Err()
		}
		c.pause = 0
	}
	return c.ServerStream.SendMsg(message)
}

// cutStream fails after a number of data bytes.
type cutStream struct {
	grpc.ServerStream
	left int64
}

func (c *cutStream) pass(message any) error {
	if m, ok := message.(interface{ GetData() []byte }); ok {
		c.left -= int64(len(m.GetData()))
		if c.left < 0 {
			return status.Error(codes.Unavailable, "the connection was cut")
		}
	}
	return nil
}

func (c *cutStream) SendMsg(message any) error {
	if err := c.pass(message); err != nil {
		return err
	}
	return c.ServerStream.SendMsg(message)
}

func (c *cutStream) RecvMsg(message any) error {
	if err := c.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	return c.pass(message)
}

// ClientHello returns an empty reply.
func (s *Server) ClientHello(context.Context, *emptypb.Empty) (*pb.ClientHelloResponse, error) {
	return &pb.ClientHelloResponse{}, nil
}
