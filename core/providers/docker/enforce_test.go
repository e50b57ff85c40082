package docker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// A restriction that a launch refuses is not reported as enforced.
func TestDomainsAreUnenforced(t *testing.T) {
	for _, test := range []struct {
		network, allowed string
		want             core.Strength
	}{
		{"unix", "192.0.2.0/24", core.Full},
		{"unix", "pypi.org", core.Unenforced},
		{"tcp", "192.0.2.0/24", core.Partial}, // the addresses of the engine's machine are not all known
	} {
		at := "127.0.0.1:0"
		if test.network == "unix" {
			at = filepath.Join(t.TempDir(), "engine.sock")
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), test.network, at)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(dockertest.Imitation())
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		p := &Provider{opts: Options{
			Host: test.network + "://" + listener.Addr().String(), LookupEnv: dockertest.Environment(nil),
		}}
		t.Cleanup(func() { _ = p.Close() })
		list, err := p.Enforcement(
			t.Context(), "", core.Spec{Network: core.Network{Mode: core.NetworkAllow, Allow: []string{test.allowed}}},
		)
		if err != nil || len(list) != 1 || list[0].Strength != test.want {
			t.Errorf("%s at %s: %+v, %v", test.allowed, test.network, list, err)
		}
	}
}

// Enforcement reads the engine's facts again, since they may have changed.
func TestEnforcementAsksTheEngine(t *testing.T) {
	info := map[string]any{
		"Driver": "zfs", "Architecture": "x86_64", "CpuCfsQuota": true, "MemoryLimit": true, "SwapLimit": true,
		"PidsLimit": true,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(info)
			return
		}
		dockertest.Imitation().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := &Provider{opts: Options{Host: "tcp://" + server.Listener.Addr().String(), LookupEnv: dockertest.Environment(nil)}}
	t.Cleanup(func() { _ = p.Close() })
	spec := core.Spec{CPU: 0.5, Memory: core.GiB, Processes: 10}
	for _, test := range []struct {
		lacks, field string
		want         core.Strength
	}{
		{"", "cpu", core.Full},
		{"", "memory", core.Full},
		{"CpuCfsQuota", "cpu", core.Unenforced},
		{"SwapLimit", "memory", core.Partial},
		{"MemoryLimit", "memory", core.Unenforced},
		{"PidsLimit", "processes", core.Unenforced},
	} {
		if test.lacks != "" {
			info[test.lacks] = false
		}
		list, err := p.Enforcement(t.Context(), "", spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Field == test.field && e.Strength != test.want {
				t.Errorf("without %q: %+v", test.lacks, e)
			}
		}
	}
}

// The limits of a container are read from the engine, not from the spec of the launch.
func TestEnforcementOfAContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		if caps := p.Capabilities(); !caps.Can(core.CapCPU) || !caps.Can(core.CapMemory) {
			return // this engine has no limits, and the launch refuses them: TestEnforcementAsksTheEngine
		}
		sb := box(t, p, func(spec *core.Spec) { spec.CPU, spec.Memory, spec.Processes = 0.5, 256*core.MiB, 100 })
		held := func() map[string]core.Enforcement {
			list, err := p.Enforcement(t.Context(), sb.ID, sb.Spec)
			if err != nil {
				t.Fatal(err)
			}
			fields := map[string]core.Enforcement{}
			for _, e := range list {
				fields[e.Field] = e
			}
			return fields
		}
		for _, field := range []string{"cpu", "memory"} {
			if e := held()[field]; e.Strength != core.Full {
				t.Errorf("%+v", e)
			}
		}
		if e := held()["processes"]; e.Strength != core.Partial || !strings.Contains(e.Gap, "132") {
			t.Errorf("%+v", e)
		}
		if e.name != "docker" {
			return // Podman 4.3 updates no container by Docker's API
		}
		raised := client.ContainerUpdateOptions{Resources: &container.Resources{NanoCPUs: 2e9}}
		if _, err := e.raw(t).ContainerUpdate(t.Context(), containerOf(sb.ID), raised); err != nil {
			t.Fatal(err)
		}
		if e := held()["cpu"]; e.Strength != core.Unenforced || e.Gap == "" {
			t.Errorf("after docker update --cpus 2: %+v", e)
		}
	})
}

// The limit of open files is the lower one of the launch's and the engine's, and policy explain says that.
func TestOpenFiles(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		unlimited := box(t, p, nil)
		most, _ := sh(t, p, unlimited.ID, "ulimit -Hn; ulimit -Hn")
		for limit, want := range map[int]string{minOpenFiles: fmt.Sprintf("%d\n%[1]d\n", minOpenFiles), 1 << 30: most} {
			sb := box(t, p, func(spec *core.Spec) { spec.OpenFiles = limit })
			if out, _ := sh(t, p, sb.ID, "ulimit -Hn; ulimit -n"); out != want {
				t.Errorf("with %d the limits are %q, want %q", limit, out, want)
			}
			list, err := p.Enforcement(t.Context(), sb.ID, sb.Spec)
			if err != nil || !slices.ContainsFunc(list, func(e core.Enforcement) bool {
				return e.Field == "open_files" && strings.Contains(e.How, "where it is lower")
			}) {
				t.Errorf("%+v, %v", list, err)
			}
		}
	})
}
