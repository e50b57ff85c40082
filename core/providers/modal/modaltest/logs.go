package modaltest

import (
	"errors"
	"io"
	"strconv"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
)

// SandboxGetLogs streams what a sandbox's entry command writes to one stream. An entry's id is the
// offset after it, so that a client goes on where it was.
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
		batch := pb.TaskLogsBatch_builder{TaskId: box.task, SandboxId: box.id, EntryId: strconv.FormatInt(offset, 10), Eof: over}
		if len(data) > 0 {
			batch.Items = []*pb.TaskLogs{pb.TaskLogs_builder{Data: string(data), Timestamp: unix(time.Now()), FileDescriptor: r.GetFileDescriptor()}.Build()}
		}
		if err := stream.Send(batch.Build()); err != nil || over {
			return err
		}
	}
}
