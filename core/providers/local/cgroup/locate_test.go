//go:build linux

package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		own, mounts string
		want        []hierarchy
	}{
		"systemd, version 2": {
			"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
			"28 22 0:25 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			[]hierarchy{
				{
					unified: true, mount: "/sys/fs/cgroup",
					dir: "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope",
				},
			},
		},
		"version 1, controllers together, and an empty version 2": {
			"5:cpu,cpuacct:/a\n4:memory:/b/c\n2:pids:/\n1:name=systemd:/x\n0::/\n",
			"30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"31 24 0:27 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n" +
				"32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			[]hierarchy{
				{
					controllers: []string{"rw", "cpu", "cpuacct"}, mount: "/sys/fs/cgroup/cpu,cpuacct",
					dir: "/sys/fs/cgroup/cpu,cpuacct/a",
				},
				{controllers: []string{"rw", "memory"}, mount: "/sys/fs/cgroup/memory", dir: "/sys/fs/cgroup/memory/b/c"},
				{unified: true, mount: "/sys/fs/cgroup/unified", dir: "/sys/fs/cgroup/unified"},
			},
		},
		"a container that sees its own part": {
			"4:memory:/docker/abc/inner\n",
			"31 24 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			[]hierarchy{
				{controllers: []string{"rw", "memory"}, mount: "/sys/fs/cgroup/memory", dir: "/sys/fs/cgroup/memory/inner"},
			},
		},
		"a mount that does not show the own group": {
			"4:memory:/elsewhere\n0::/../..\n",
			"31 24 0:27 /docker/abc /mem rw - cgroup cgroup rw,memory\n29 24 0:25 / /cg rw - cgroup2 cgroup2 rw\n",
			nil,
		},
		"blanks in a path": {
			"0::/\n", `28 22 0:25 / /my\040groups rw - cgroup2 c rw`,
			[]hierarchy{{unified: true, mount: "/my groups", dir: "/my groups"}},
		},
		"nothing and garbage": {"garbage\n::\n", "garbage - \n\n1 2 3 - cgroup x\n", nil},
	} {
		if diff := cmp.Diff(test.want, parse(test.own, test.mounts), cmp.AllowUnexported(hierarchy{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0::/\n", "28 22 0:25 / /sys/fs/cgroup rw - cgroup2 c rw\n")
	f.Add("4:memory:/a\n", "31 24 0:27 / /m rw - cgroup cgroup rw,memory\n")
	f.Fuzz(func(t *testing.T, own, mounts string) {
		for _, h := range parse(own, mounts) {
			if h.dir == "" {
				t.Errorf("no directory in %+v", h)
			}
		}
	})
}
