//go:build linux

package modaltest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// pip installs where this machine has it. Where it does not, the build says that, whatever the packages are.
func TestPip(t *testing.T) {
	r := newRig(t, nil)
	image := r.client.Images.FromRegistry("python:3.12-slim", nil)
	_, err := image.DockerfileCommands([]string{"RUN python -m pip --version && false", "RUN python -m pip install x"}, nil).Build(t.Context(), r.app, nil)
	if err == nil {
		t.Fatal("a step that fails is no error")
	}
	there := exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() == nil
	if told := strings.Contains(err.Error(), "has no pip"); told == there || strings.Contains(err.Error(), "not found") {
		t.Errorf("this machine has pip: %t, and the build says: %v", there, err)
	}
}
