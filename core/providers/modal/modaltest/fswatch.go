package modaltest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// watch reports changes below a path. A helper inside the sandbox gets them from the sandbox's kernel.
func (s *Server) watch(
	ctx context.Context, box *sandbox, c *command, files core.FileSystem, request guest.Watch,
) error {
	tool := &fsRun{files: files, id: box.backend.ID}
	root, err := tool.follow(ctx, path.Clean(request.Path))
	if err != nil {
		_ = json.NewEncoder(c.stderr).Encode(failureOf(err))
		c.finish(core.Exit{Code: 1}, nil)
		s.retire(box, c)
		return nil
	}
	request.Path = root.Path
	if err := s.bringTool(ctx, box, files); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	argv, err := request.Argv(fsTool)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return statusOf(s.start(ctx, box, c, core.ExecSpec{Command: argv}))
}

// bringTool copies the helper to the path of Modal's tool, once for each sandbox.
func (s *Server) bringTool(ctx context.Context, box *sandbox, files core.FileSystem) error {
	box.tool.Lock()
	defer box.tool.Unlock()
	if box.hasTool {
		return nil
	}
	program, err := os.Open(s.opts.Guest)
	if err != nil {
		return err
	}
	err = files.WriteFile(ctx, box.backend.ID, fsTool, program, core.WriteOptions{Parents: true, Mode: 0o755})
	if err = errors.Join(err, program.Close()); err == nil {
		box.hasTool = true
	}
	return err
}
