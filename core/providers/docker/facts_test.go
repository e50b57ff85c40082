package docker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

// Only a request to the engine shows whether it supports a limit. An unknown limit must not refuse a launch before
// that, and an unreliable quota is not reported as full enforcement.
func TestLimitsAreProbedBeforeRefusal(t *testing.T) {
	limits := []core.Capability{core.CapCPU, core.CapMemory, core.CapProcesses, core.CapDisk}
	for driver, strength := range map[string]core.Strength{"btrfs": core.Partial, "zfs": core.Full, "vfs": ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info") {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{
					"Driver": driver, "Architecture": "x86_64", "CpuCfsQuota": true, "MemoryLimit": true, "PidsLimit": true,
				})
				return
			}
			dockertest.Imitation().ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		p := &Provider{opts: Options{Host: "tcp://" + server.Listener.Addr().
			String(), LookupEnv: dockertest.Environment(nil)}}
		t.Cleanup(func() { _ = p.Close() })
		for _, limit := range limits {
			if !p.Capabilities().Can(limit) {
				t.Errorf("%s: a limit of %s is refused before a launch", driver, limit)
			}
		}
		e, err := p.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.learn(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if got := p.Capabilities().Can(core.CapDisk); got != (strength != "") {
			t.Errorf("%s: the engine can bound the disk: %v", driver, got)
		}
		if list, err := p.Enforcement(t.Context(), "", core.Spec{Disk: core.GiB}); err != nil || len(list) != 1 ||
			strength != "" && list[0].Strength != strength {
			t.Errorf("%s: %+v, %v", driver, list, err)
		}
	}
}

// A runtime that the engine got after its facts were cached is found by a launch and by the doctor.
func TestFactsAreAskedBeforeRefusal(t *testing.T) {
	var runtimes atomic.Value
	runtimes.Store(map[string]any{"runc": struct{}{}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"Architecture": "x86_64", "Runtimes": runtimes.Load()})
			return
		}
		dockertest.Imitation().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	cache := t.TempDir()
	open := func() *Provider {
		p := &Provider{opts: Options{
			Host: "tcp://" + server.Listener.Addr().String(), Runtime: "crun", CacheDir: cache,
			LookupEnv: dockertest.Environment(nil),
		}}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	launch := func(p *Provider) error {
		_, err := p.Launch(t.Context(), core.Spec{Name: "a", Image: testImage}, core.Lease{}, nil)
		return err
	}
	const refusal = "the engine has no runtime of that name"
	running := open()
	if err := launch(running); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Fatalf("without the runtime: %v", err)
	}
	runtimes.Store(map[string]any{"runc": struct{}{}, "crun": struct{}{}})
	for name, p := range map[string]*Provider{"a server": running, "another process": open()} {
		if err := launch(p); err == nil || strings.Contains(err.Error(), refusal) {
			t.Errorf("%s, with the runtime: %v", name, err)
		}
	}
	runtimes.Store(map[string]any{"runc": struct{}{}})
	if found := open().Diagnose(t.Context()); !slices.ContainsFunc(found, func(f core.Finding) bool {
		return f.Name == "runtime" && f.Status == statusError
	}) {
		t.Errorf("the doctor finds a removed runtime: %+v", found)
	}
}
