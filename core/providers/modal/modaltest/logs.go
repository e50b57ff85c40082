package modaltest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// logPage is the most entries in one answer.
const logPage = 1000

// entry finds the sandbox of a log request.
func (s *Server) entry(id, task string) (*sandbox, error) {
	if id != "" {
		return s.sandbox(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if box := s.tasks[task]; box != nil {
		return box, nil
	}
	return nil, status.Errorf(codes.NotFound, "Task '%s' not found", task)
}

// logItems returns the output of an entry command in a time range, oldest first.
func (b *sandbox) logItems(source pb.FileDescriptor, since, until time.Time, search string) ([]*pb.TaskLogs, error) {
	var items []*pb.TaskLogs
	for _, stream := range []struct {
		fd   pb.FileDescriptor
		from *spool
	}{
		{pb.FileDescriptor_FILE_DESCRIPTOR_STDOUT, b.entry.stdout},
		{pb.FileDescriptor_FILE_DESCRIPTOR_STDERR, b.entry.stderr},
	} {
		if source != pb.FileDescriptor_FILE_DESCRIPTOR_UNSPECIFIED && source != stream.fd {
			continue
		}
		pieces, texts, err := stream.from.between(since, until)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		for i, p := range pieces {
			if strings.Contains(texts[i], search) {
				items = append(items, pb.TaskLogs_builder{
					Data: strings.ToValidUTF8(texts[i], "\ufffd"), FileDescriptor: stream.fd, Timestamp: unix(p.time),
					TimestampNs: uint64(p.time.UnixNano()),
				}.Build())
			}
		}
	}
	slices.SortStableFunc(items, func(a, b *pb.TaskLogs) int {
		return cmp.Compare(a.GetTimestampNs(), b.GetTimestampNs())
	})
	return items, nil
}

// AppCountLogs counts a sandbox's log entries by time interval.
func (s *Server) AppCountLogs(_ context.Context, r *pb.AppCountLogsRequest) (*pb.AppCountLogsResponse, error) {
	box, err := s.entry(r.GetSandboxId(), r.GetTaskId())
	if err != nil {
		return nil, err
	}
	stretch := time.Duration(max(r.GetBucketSecs(), 1)) * time.Second
	var buckets []*pb.AppCountLogsResponse_LogBucket
	for at := r.GetSince().AsTime().Truncate(stretch); at.Before(r.GetUntil().AsTime()); at = at.Add(stretch) {
		items, err := box.logItems(r.GetSource(), at, at.Add(stretch), r.GetSearchText())
		if err != nil {
			return nil, err
		}
		bucket := pb.AppCountLogsResponse_LogBucket_builder{BucketStartAt: timestamppb.New(at)}
		for _, item := range items {
			if item.GetFileDescriptor() == pb.FileDescriptor_FILE_DESCRIPTOR_STDERR {
				bucket.StderrLogs++
			} else {
				bucket.StdoutLogs++
			}
		}
		buckets = append(buckets, bucket.Build())
	}
	return pb.AppCountLogsResponse_builder{AppId: r.GetAppId(), Buckets: buckets}.Build(), nil
}

// AppFetchLogs returns a sandbox's log entries of a time range. If there are too many, it returns the last ones.
func (s *Server) AppFetchLogs(_ context.Context, r *pb.AppFetchLogsRequest) (*pb.AppFetchLogsResponse, error) {
	box, err := s.entry(r.GetSandboxId(), r.GetTaskId())
	if err != nil {
		return nil, err
	}
	until := time.Now()
	if r.HasUntil() {
		until = r.GetUntil().AsTime()
	}
	items, err := box.logItems(r.GetSource(), r.GetSince().AsTime(), until, r.GetSearchText())
	if err != nil {
		return nil, err
	}
	items = items[max(0, len(items)-cmp.Or(int(r.GetLimit()), logPage)):]
	batch := pb.TaskLogsBatch_builder{TaskId: box.task, SandboxId: box.id, Items: items}.Build()
	return pb.AppFetchLogsResponse_builder{Batches: []*pb.TaskLogsBatch{batch}}.Build(), nil
}

// SandboxGetLogs streams one output stream of a sandbox's entry command. An entry's id is the offset after it. A client
// resumes from that id.
func (s *Server) SandboxGetLogs(r *pb.SandboxGetLogsRequest, stream pb.ModalClient_SandboxGetLogsServer) error {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return err
	}
	from := box.entry.stdout
	if r.GetFileDescriptor() == pb.FileDescriptor_FILE_DESCRIPTOR_STDERR {
		from = box.entry.stderr
	}
	offset, err := strconv.ParseInt(r.GetLastEntryId(), 10, 64)
	if err != nil {
		offset = 0
	}
	for {
		data, err := from.next(stream.Context(), offset, chunk)
		over := errors.Is(err, io.EOF)
		if err != nil && !over {
			return err
		}
		offset += int64(len(data))
		batch := pb.TaskLogsBatch_builder{
			TaskId: box.task, SandboxId: box.id, EntryId: strconv.FormatInt(offset, 10), Eof: over,
		}
		if len(data) > 0 {
			batch.Items = []*pb.TaskLogs{
				pb.TaskLogs_builder{
					Data: strings.ToValidUTF8(string(data), "\ufffd"), Timestamp: unix(time.Now()),
					FileDescriptor: r.GetFileDescriptor(),
				}.Build(),
			}
		}
		if err := stream.Send(batch.Build()); err != nil || over {
			return err
		}
	}
}
