package mcp

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// keeperBench is a server over a provider with volumes, secrets, snapshots and tunnels.
func keeperBench(t *testing.T, opts setup.Options) *bench {
	t.Helper()
	keeper := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{keeper.Factory()}})
	opts.Toolsets = []string{setup.All}
	return benchOver(t, keeper.Provider, svc, opts)
}

// A fork and a sandbox from a checkpoint continue their source's state, belong to the session, and count.
func TestForkAndCheckpoint(t *testing.T) {
	b := newBench(t, setup.Options{Toolsets: []string{setup.All}, MaxSandboxes: 3})
	a := b.connect(t)
	sb := a.Launch(args{"name": "dev", "secrets": map[string]string{"TOKEN": "launch-value-1"}})
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/f", "content": "before"})
	forked := a.Call("sandbox_fork", args{"sandbox": "dev", "name": "copy"})
	checkOutput(t, "sandbox_fork", forked)
	if forked["name"] != "mcp-copy" || forked["leased"] != true || forked["id"] == sb {
		t.Errorf("the fork: %v", forked)
	}
	if got := a.Call(
		"exec", args{"sandbox": "copy", "command": "cat /tmp/f; echo $TOKEN"},
	); got["stdout"] != "before[redacted]\n" {
		t.Errorf("in the fork: %v", got)
	}
	kept := a.Call("checkpoint", args{"sandbox": sb, "name": "point"})
	checkOutput(t, "checkpoint", kept)
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/f", "content": "after"})
	listed := a.Call("checkpoint_list", nil)
	checkOutput(t, "checkpoint_list", listed)
	if all, _ := listed["checkpoints"].([]any); len(all) != 1 {
		t.Errorf("checkpoints: %v", listed)
	}
	again := a.Launch(args{"checkpoint": "point"})
	if got := a.Call("file_read", args{"sandbox": again, "path": "/tmp/f"}); got["content"] != "before" {
		t.Errorf("from the checkpoint: %v", got)
	}
	a.fails(core.KindExhausted, "sandbox_fork", args{"sandbox": sb})
	checkOutput(t, "checkpoint_remove", a.Call("checkpoint_remove", args{"name": "point"}))
	a.fails(core.KindNotFound, "checkpoint_remove", args{"name": "point"})
	a.fails(core.KindNotFound, "sandbox_launch", args{"checkpoint": "point"})
	if got := a.Call("sandbox_terminate", args{"all": true}); len(got["terminated"].([]any)) != 3 {
		t.Errorf("not all were the session's: %v", got)
	}
}

func TestNetworkTools(t *testing.T) {
	b := keeperBench(
		t, setup.Options{Policy: service.LaunchPolicy{Networks: []core.NetworkMode{core.NetworkNone, core.NetworkAllow}}},
	)
	a := b.connect(t)
	sb := a.Launch(args{"ports": []int{8080, 443}})
	got := a.Call("ports", args{"sandbox": sb})
	checkOutput(t, "ports", got)
	if all, _ := got["ports"].([]any); len(all) != 2 || all[0].(map[string]any)["port"] != 443.0 ||
		all[0].(map[string]any)["address"] == "" {
		t.Errorf("ports: %v", got)
	}
	got = a.Call("connect_token", args{"sandbox": sb, "port": 8080})
	checkOutput(t, "connect_token", got)
	if got["token"] == "" || strings.Contains(got["token"].(string), "redacted") ||
		!strings.HasPrefix(got["url"].(string), "http") {
		t.Errorf("the token: %v", got)
	}
	got = a.Call("network_set", args{"sandbox": sb, "network": "allow", "network_allow": []string{"example.com"}})
	checkOutput(t, "network_set", got)
	if got["network"] != "allow" {
		t.Errorf("the network: %v", got)
	}
	a.fails(core.KindUnauthorized, "network_set", args{"sandbox": sb, "network": "all"})
	a.fails(core.KindUsage, "network_set", args{"sandbox": sb, "network": "some"})
	if err := b.provider.Deny(
		sb, core.Denial{Time: time.Now(), Protocol: "tcp", Address: "192.0.2.1", Port: 443, Name: "evil.example", Count: 2},
	); err != nil {
		t.Fatal(err)
	}
	got = a.Call("denied_connections", args{"sandbox": sb})
	checkOutput(t, "denied_connections", got)
	if all, _ := got["denied"].([]any); len(all) != 1 || all[0].(map[string]any)["name"] != "evil.example" {
		t.Errorf("denied: %v", got)
	}
	b = newBench(t, setup.Options{Toolsets: []string{setup.All}})
	a = b.connect(t)
	sb = a.Launch(nil)
	if got := a.Call("ports", args{"sandbox": sb}); len(got["ports"].([]any)) != 0 {
		t.Errorf("no ports: %v", got)
	}
	a.fails(core.KindUnsupported, "connect_token", args{"sandbox": sb})
	a.fails(core.KindUnsupported, "network_set", args{"sandbox": sb, "network": "none"})
	a.fails(core.KindUnsupported, "volume_list", args{"provider": "fake"})
	a.fails(core.KindUnsupported, "volume_create", args{"name": "v"})
}

func TestStoreTools(t *testing.T) {
	b := keeperBench(t, setup.Options{})
	a := b.connect(t)
	checkOutput(t, "volume_create", a.Call("volume_create", args{"name": "data"}))
	a.fails(core.KindConflict, "volume_create", args{"name": "data"})
	got := a.Call("volume_list", nil)
	checkOutput(t, "volume_list", got)
	if all, _ := got["items"].([]any); len(all) != 1 || all[0].(map[string]any)["name"] != "data" {
		t.Errorf("volumes: %v", got)
	}
	a.Call("volume_remove", args{"name": "data"})
	a.fails(core.KindNotFound, "volume_remove", args{"name": "data"})
	if _, err := b.service.Stores.CreateSecret(
		t.Context(), "", "cloud", map[string]core.SecretValue{"KEY": core.NewSecretValue("kept-value")}, core.SecretOptions{},
	); err != nil {
		t.Fatal(err)
	}
	result := a.result("secret_list", nil)
	if text := textOf(result); !strings.Contains(text, "cloud") || strings.Contains(text, "kept-value") {
		t.Errorf("secrets: %s", text)
	}
}

// A moved sandbox keeps its files. A GPU at the new place needs the user's confirmation.
func TestMove(t *testing.T) {
	here := fake.New(fake.Options{})
	there := fake.New(fake.Options{
		Name: "cloud", IDPrefix: "cld-", Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"T4": 1},
	})
	svc := service.New(service.Options{
		Actor: "mcp", Factories: []core.Factory{here.Factory(), there.Factory()}, StateDir: t.TempDir(),
	})
	b := benchOver(t, here, svc, setup.Options{Toolsets: []string{setup.All}})
	t.Cleanup(there.Shutdown)
	user := &answers{}
	a := b.connect(t, client.WithElicitationHandler(user))
	sb := a.Launch(args{"name": "dev", "provider": "fake"})
	a.Call("file_write", args{"sandbox": sb, "path": "/root/f", "content": "moved"})
	a.fails(core.KindCanceled, "sandbox_move", args{"sandbox": sb, "to": "cloud", "gpu": "T4"})
	a.fails(core.KindUsage, "sandbox_move", args{"sandbox": sb, "to": "nowhere"})
	got := a.Call("sandbox_move", args{"sandbox": sb, "to": "cloud"})
	checkOutput(t, "sandbox_move", got)
	moved, _ := got["sandbox"].(map[string]any)
	if moved["provider"] != "cloud" || len(user.questions) != 1 || !strings.Contains(user.questions[0], "T4") {
		t.Errorf("moved: %v; asked was %q", got, user.questions)
	}
	if got := a.Call("file_read", args{"sandbox": moved["id"], "path": "/root/f"}); got["content"] != "moved" {
		t.Errorf("its file: %v", got)
	}
	a.fails(core.KindNotFound, "sandbox_list", args{"sandbox": sb})
}

// sandbox_list shows the cost of a sandbox, and sandbox_cost the sum, only to the owner. The core checks max_cost.
func TestCost(t *testing.T) {
	provider := fake.New(fake.Options{Also: []core.Capability{core.CapCPU}})
	svc := service.New(service.Options{
		Actor: "mcp", Factories: []core.Factory{provider.Factory()}, StateDir: t.TempDir(),
		Prices: map[string]price.Table{"fake": {Currency: "USD", CPU: 3600}},
	})
	b := benchOver(t, provider, svc, setup.Options{Toolsets: []string{setup.All}})
	a := b.connect(t)
	sb := a.Launch(args{"cpu": 1, "max_cost": 100000})
	a.Call("exec", args{"sandbox": sb, "command": "sleep 0.1"})
	got := a.Call("sandbox_list", args{"sandbox": sb})
	if text, _ := got["sandboxes"].([]any)[0].(map[string]any)["cost"].(string); !strings.HasSuffix(text, "USD") {
		t.Errorf("the sandbox: %v", got)
	}
	got = a.Call("sandbox_cost", args{"by": "sandbox", "hours": 1})
	checkOutput(t, "sandbox_cost", got)
	if sums, _ := got["sums"].([]any); len(sums) != 1 || sums[0].(map[string]any)["amount"].(float64) <= 0 {
		t.Errorf("sums: %v", got)
	}
	if report, err := b.host.ServiceFor(auth.Identity{Owner: "mallory", Isolated: true}, "s").
		Records.Cost(t.Context(), service.CostFilter{}); err != nil || len(report.Sums) != 0 {
		t.Errorf("another owner sees %+v, %v", report.Sums, err)
	}
	a.fails(core.KindUsage, "sandbox_launch", args{"max_cost": -1})
}

// A launch that the core shortens has a note in its result.
func TestNoticesAreInResults(t *testing.T) {
	here := fake.New(fake.Options{})
	cloud := fake.New(fake.Options{
		Name: "cloud", IDPrefix: "cld-", Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"T4": 1},
	})
	svc := service.New(service.Options{
		Actor: "mcp", Factories: []core.Factory{here.Factory(), cloud.Factory()}, StateDir: t.TempDir(),
		Prices: map[string]price.Table{"cloud": {Currency: "USD", GPU: map[string]float64{"T4": 0.001}}},
	})
	b := benchOver(t, here, svc, setup.Options{Toolsets: []string{setup.All}})
	t.Cleanup(cloud.Shutdown)
	a := b.connect(t, client.WithElicitationHandler(&answers{agree: true}))
	const notice = "has a GPU, so it ends after 1h"
	launched := a.result("sandbox_launch", args{"name": "train", "gpu": "T4"})
	if text := textOf(launched); launched.IsError || !strings.Contains(text, "note: mcp-train "+notice) {
		t.Errorf("launched: %s", text)
	}
	got, _ := launched.StructuredContent.(map[string]any)
	checkOutput(t, "sandbox_launch", got)
	if note, _ := got["note"].(string); !strings.Contains(note, notice) {
		t.Errorf("launched: %v", got)
	}
	if text := textOf(
		a.result("sandbox_launch", args{"name": "bounded", "gpu": "T4", "timeout_seconds": 60}),
	); strings.Contains(text, "note:") {
		t.Errorf("a launch with a lifetime has a note: %s", text)
	}
}

// The stores of a provider belong to all its users. A caller with a key sees only its own volumes.
func TestStoresAreClosedToKeys(t *testing.T) {
	var requested []core.Volume
	keeper := fake.NewKeeper(fake.Options{Also: []core.Capability{core.CapVolumes}}, fake.KeeperOptions{})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{keeper.Factory()}})
	b := benchOver(
		t, keeper.Provider, svc,
		setup.Options{Toolsets: []string{setup.All}, Policy: service.LaunchPolicy{NoHostPaths: true}},
	)
	scoped := b.host.ServiceFor(auth.Identity{Owner: "alice", Isolated: true}, "s")
	if _, err := scoped.Stores.Secrets(t.Context(), ""); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("secrets: %v", err)
	}
	mine, err := scoped.Stores.CreateVolume(t.Context(), "", "data", core.VolumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	neighbor := b.host.ServiceFor(auth.Identity{Owner: "alice-b", Isolated: true}, "s")
	theirs, err := neighbor.Stores.CreateVolume(t.Context(), "", "data", core.VolumeOptions{})
	if err != nil || theirs.Name == mine.Name {
		t.Fatalf("of a neighbor: %v, %v", theirs, err)
	}
	found, err := scoped.Stores.Volumes(t.Context(), "")
	if err != nil || len(found.Items) != 1 || found.Items[0].Name != mine.Name {
		t.Errorf("volumes: %v, %v", found, err)
	}
	if err := scoped.Stores.RemoveVolume(t.Context(), "", theirs.Name); !errors.Is(err, core.KindNotFound) {
		t.Errorf("the neighbor's volume: %v", err)
	}
	if _, err := scoped.Sandboxes.Launch(
		t.Context(), core.Spec{Secrets: []core.Secret{{Name: "cloud", Ref: "cloud"}}}, service.LaunchOptions{},
	); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a kept secret: %v", err)
	}
	if _, err := scoped.Sandboxes.Launch(
		t.Context(), core.Spec{Volumes: []core.Volume{{Source: "/etc", Target: "/x"}}}, service.LaunchOptions{},
	); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a directory of the host: %v", err)
	}
	for _, source := range []string{"data", mine.Name} {
		_, err := scoped.Sandboxes.Launch(t.Context(), core.Spec{Volumes: []core.Volume{{Source: source, Target: "/x"}}},
			service.LaunchOptions{
				Confirm: func(spec core.Spec) error { requested = append(requested, spec.Volumes...); return nil },
			})
		if err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	volume := core.Volume{Source: mine.Name, Target: "/x"}
	if !slices.Equal(requested, []core.Volume{volume, volume}) {
		t.Errorf("mounted are %v", requested)
	}
}

// A GPU of a template needs the user's confirmation, like a named one.
func TestTemplateGPUNeedsConfirmation(t *testing.T) {
	provider := fake.New(fake.Options{Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"T4": 4}})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{provider.Factory()}, Templates: func(
		name string,
	) (core.Spec, bool, error) {
		return core.Spec{GPU: core.GPU{Type: "T4", Count: 1}}, name == "train", nil
	}})
	b := benchOver(t, provider, svc, setup.Options{Policy: service.LaunchPolicy{Template: "train"}})
	user := &answers{}
	a := b.connect(t, client.WithElicitationHandler(user))
	a.fails(core.KindCanceled, "sandbox_launch", nil)
	if len(user.questions) != 1 || !strings.Contains(user.questions[0], "T4") {
		t.Errorf("asked was %q", user.questions)
	}
	a.fails(core.KindUnauthorized, "sandbox_launch", args{"gpu": "T4:2"})
	a.fails(core.KindUnauthorized, "sandbox_launch", args{"image": "other"})
}

// A Dockerfile repeats the launch's request and each command in its directory, without the value of any secret.
func TestDockerfile(t *testing.T) {
	b := newBench(t, setup.Options{Toolsets: []string{setup.All}})
	a := b.connect(t)
	sb := a.Launch(args{
		"env":     map[string]string{"PRICE": `5$ "net"`, "TEXT": "a\nb"},
		"secrets": map[string]string{"TOKEN": "launch-value-1"},
	})
	a.Call("file_write", args{"sandbox": sb, "path": "/app/run.sh", "content": "EOF launch-value-1"})
	a.Call("exec", args{"sandbox": sb, "command": "echo launch-value-1 > made", "workdir": "/app"})
	got := a.Call("dockerfile", args{"sandbox": sb})
	checkOutput(t, "dockerfile", got)
	text, _ := got["dockerfile"].(string)
	for _, line := range []string{
		"FROM debian:stable-slim\n", `ENV PRICE="5\$ \"net\""` + "\n", "# ENV TEXT has several lines", "# secret TOKEN",
		"WORKDIR /app\nRUN [\"/bin/sh\",\"-c\",\"echo [redacted] > made\"]\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text, "launch-value") {
		t.Errorf("a secret is in\n%s", text)
	}
}
