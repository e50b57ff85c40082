//go:build linux

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

// bareVariable is set in the process that TestRootWithoutCapabilities starts.
const bareVariable = "SB_TEST_BARE_ROOT"

// TestRootWithoutCapabilities runs a sandbox as a root that may not mount, as in a container without privileges.
func TestRootWithoutCapabilities(t *testing.T) {
	if os.Getenv(bareVariable) != "" {
		p := opened(t, opener(t, nil))
		sb := launched(t, p, nil)
		if got := output(t, p, sb.ID, "echo works"); got != "works\n" {
			t.Errorf("the command wrote %q", got)
		}
		return
	}
	runAgain(t, bareVariable+"=1", "unshare", "--user", "--map-root-user", "setpriv", "--bounding-set=-sys_admin")
}

// A control group that could not be made can be removed, as in a container whose control groups are read-only.
func TestReadOnlyControlGroups(t *testing.T) {
	onDisk(t, "tmpfs", "ro", func(t *testing.T, dir string) {
		t.Helper()
		group := cgroup.Group{Dirs: []string{filepath.Join(dir, "none")}}
		if err := group.Remove(); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "none"), 0o755); err == nil {
			t.Error("the file system is not read-only")
		}
	})
}
