package modaltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// buildStep is a command of a build with its directory and its variables.
type buildStep struct {
	command, workdir string
	env              map[string]string
}

// build runs an image's steps in a sandbox of the backend and stores the changes.
func (s *Server) build(built *image, steps []buildStep, env []core.Secret) {
	snapshot, err := s.runSteps(built, steps, env)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		built.result = pb.GenericResult_builder{
			Status: pb.GenericResult_GENERIC_STATUS_FAILURE, Exception: err.Error(),
		}.Build()
	} else {
		built.snapshot = snapshot
		built.result = success()
	}
	close(built.done)
}

func (s *Server) runSteps(built *image, steps []buildStep, env []core.Secret) (snapshot string, err error) {
	box, err := s.opts.Backend.Launch(s.ctx, built.on(core.Spec{
		Name: backendName(built.id), App: "modal", Env: built.env, Secrets: env, Network: core.Network{Mode: s.outside()},
	}), s.lease(0), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.opts.Backend.Terminate(context.WithoutCancel(s.ctx), box.ID) }()
	write := func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		built.log = append(built.log, text)
	}
	if built.python() {
		if err := s.shell(s.ctx, box.ID, nil, nil, linkPython); err != nil {
			return "", err
		}
	}
	if err := s.checkPip(box.ID, steps); err != nil {
		return "", err
	}
	if err := s.giveApt(s.ctx, box.ID, steps); err != nil {
		return "", err
	}
	for i, step := range steps {
		write(fmt.Sprintf("=> Step %d: %s\n", i+1, step.command))
		code, err := s.runIn(
			s.ctx, box.ID, core.ExecSpec{Command: []string{"sh", "-c", step.command}, Workdir: step.workdir, Env: step.env},
			textWriter(write),
		)
		if err != nil {
			return "", err
		}
		if code != 0 {
			return "", fmt.Errorf("step %d: %s: exit code %d", i+1, step.command, code)
		}
	}
	return s.keep(s.ctx, box.ID, built.id)
}

// checkPip returns an error if a step installs packages with pip and this machine has no pip.
func (s *Server) checkPip(id string, steps []buildStep) error {
	if !slices.ContainsFunc(steps, func(step buildStep) bool { return strings.Contains(step.command, "-m pip install") }) {
		return nil
	}
	code, err := s.runIn(s.ctx, id, core.ExecSpec{Command: []string{"sh", "-c", "python3 -m pip --version"}}, io.Discard)
	if err == nil && code != 0 {
		err = errors.New(
			"images here have this machine's programs, and this machine's Python has no pip: install it (on Debian: " +
				"python3-pip)",
		)
	}
	return err
}

// textWriter passes each write to a function.
type textWriter func(string)

func (w textWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}
