package programtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// NodeVariable is the environment variable with the directory of the npm packages that CI installs for tests.
const NodeVariable = "SB_TEST_NODE_MODULES"

// NodeModules returns a directory with the npm packages node 22, and conformance, inspector and sdk of
// @modelcontextprotocol. Without one, it skips the test.
func NodeModules(t Skipper) string {
	t.Helper()
	dir := os.Getenv(NodeVariable)
	if dir == "" {
		t.Skip(
			NodeVariable + " names no directory: npm i node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12 " +
				"@modelcontextprotocol/inspector@0.15.0 @modelcontextprotocol/sdk@1.32.2 oazapfts@7.5.0 " +
				"@oazapfts/runtime@1.2.0",
		)
	}
	return dir
}

// Node returns the command that runs a program of npm. modules is the result of NodeModules.
func Node(ctx context.Context, modules string, arguments ...string) *exec.Cmd {
	bin := filepath.Join(modules, "node", "bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "node"), arguments...) //nolint:gosec // a test's
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	return cmd
}
