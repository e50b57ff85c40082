package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
)

// keepers returns a service over two keepers, "cloud" and "engine", and a plain provider, "plain".
func keepers(
	t *testing.T, opts service.Options, more fake.KeeperOptions,
) (*service.Service, *fake.Keeper, *fake.Keeper) {
	t.Helper()
	cloud := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-"}, more)
	engine := fake.NewKeeper(fake.Options{Name: "engine", IDPrefix: "eng-"}, more)
	plain := fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"})
	opts.Factories = []core.Factory{plain.Factory(), cloud.Factory(), engine.Factory()}
	svc := service.New(opts)
	t.Cleanup(func() {
		_ = svc.Close()
		cloud.Shutdown()
		engine.Shutdown()
		plain.Shutdown()
	})
	return svc, cloud, engine
}

func wantKind(t *testing.T, err error, kind core.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want one of kind %v", err, kind)
	}
}

func TestStoreOfWhichProvider(t *testing.T) {
	svc, _, engine := keepers(t, service.Options{}, fake.KeeperOptions{})
	ctx := t.Context()
	_, err := svc.Stores.CreateEnvironment(ctx, "", "data")
	wantKind(t, err, core.KindUsage) // two could be meant
	if !strings.Contains(core.HintOf(err), "use --provider cloud or engine") {
		t.Errorf("the hint is %q", core.HintOf(err))
	}
	_, err = svc.Stores.CreateVolume(ctx, "plain", "data", core.VolumeOptions{})
	wantKind(t, err, core.KindUnsupported)
	_, err = svc.Stores.CreateVolume(ctx, "nowhere", "data", core.VolumeOptions{})
	wantKind(t, err, core.KindUsage)
	_, err = svc.Stores.CreateVolume(ctx, "cloud", "-data", core.VolumeOptions{})
	wantKind(t, err, core.KindUsage)
	// A volume is where a launch would put the sandbox.
	made, err := svc.Stores.CreateVolume(ctx, "", "data", core.VolumeOptions{})
	if err != nil || made.Provider != "cloud" {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := svc.Stores.CreateVolume(ctx, "engine", "data", core.VolumeOptions{}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, svc.Stores.RemoveVolume(ctx, "", "data"), core.KindUsage)
	all, err := svc.Stores.Volumes(ctx, "")
	if err != nil || len(all.Items) != 2 || all.Items[0].Provider != "cloud" {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = svc.Stores.Volumes(ctx, "plain")
	wantKind(t, err, core.KindUnsupported)
	engine.Inject(fake.OpStore, fake.Fault{Err: core.Errorf(core.KindUnavailable, "engine", "", "it is down")})
	all, err = svc.Stores.Volumes(ctx, "")
	if err != nil || len(all.Items) != 1 || len(all.Failures) != 1 || all.Failures[0].Provider != "engine" ||
		all.Failures[0].Kind != core.KindUnavailable {
		t.Errorf("with one down: %+v, %v", all, err)
	}
	if err := svc.Stores.RemoveVolume(ctx, "cloud", "data"); err != nil {
		t.Error(err)
	}
}

// TestVolumeUse follows a volume from its first sandbox to its removal.
func TestVolumeUse(t *testing.T) {
	cloud := fake.NewKeeper(fake.Options{
		Name: "cloud", IDPrefix: "clo-", Also: []core.Capability{core.CapVolumes},
	}, fake.KeeperOptions{})
	svc := service.New(service.Options{Factories: []core.Factory{cloud.Factory()}})
	defer func() { _ = svc.Close(); cloud.Shutdown() }()
	ctx := t.Context()
	for _, name := range []string{"data", "spare"} {
		if _, err := svc.Stores.CreateVolume(ctx, "", name, core.VolumeOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	sb, err := svc.Sandboxes.Launch(ctx, core.Spec{
		Name: "dev", Volumes: []core.Volume{{Source: "data", Target: "/data", ReadOnly: true}},
	}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	use, err := svc.Stores.InspectVolume(ctx, "", "data")
	if err != nil || len(use.UsedBy) != 1 || use.UsedBy[0].Name != "dev" || use.UsedBy[0].Target != "/data" ||
		!use.UsedBy[0].ReadOnly {
		t.Errorf("%+v, %v", use, err)
	}
	unused, err := svc.Stores.UnusedVolumes(ctx, "")
	if err != nil || len(unused) != 1 || unused[0].Name != "spare" {
		t.Errorf("unused: %+v, %v", unused, err)
	}
	wantKind(t, svc.Stores.RemoveVolume(ctx, "", "data"), core.KindConflict)
	box, err := svc.Stores.OpenVolume(ctx, "", "spare", true, nil)
	if err != nil || !box.Spec.Volumes[0].ReadOnly || box.Spec.Timeout <= 0 {
		t.Errorf("opened: %+v, %v", box.Spec, err)
	}
	_, err = svc.Stores.OpenVolume(ctx, "", "absent", true, nil)
	wantKind(t, err, core.KindNotFound)
	_, err = svc.Stores.InspectVolume(ctx, "", "absent")
	wantKind(t, err, core.KindNotFound)
	for _, id := range []string{sb.ID, box.ID} {
		if err := svc.Sandboxes.Terminate(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := svc.Stores.RemoveVolume(ctx, "", "data"); err != nil {
		t.Error(err)
	}
}

// The choice ignores a provider that is not set up, but not one that is down.
func TestStoreWhereOthersAreNotSetUp(t *testing.T) {
	svc, cloud, engine := keepers(t, service.Options{}, fake.KeeperOptions{})
	ctx := t.Context()
	down := core.Errorf(core.KindUnavailable, "cloud", "", "it is down")
	cloud.Inject(fake.OpCheck, fake.Fault{Err: down, Times: 1})
	_, err := svc.Stores.CreateEnvironment(ctx, "", "data")
	wantKind(t, err, core.KindUsage)
	absent := core.Errorf(core.KindUnauthorized, "cloud", "", "%w", core.NotSetUp("there is no account"))
	cloud.Inject(fake.OpCheck, fake.Fault{Err: absent})
	made, err := svc.Stores.CreateVolume(ctx, "", "data", core.VolumeOptions{})
	if err != nil || made.Provider != "engine" {
		t.Errorf("%+v, %v", made, err)
	}
	if err := svc.Stores.RemoveVolume(ctx, "", "data"); err != nil {
		t.Error(err)
	}
	engine.Inject(fake.OpCheck, fake.Fault{Err: absent})
	_, err = svc.Stores.CreateVolume(ctx, "", "data", core.VolumeOptions{})
	wantKind(t, err, core.KindUnavailable)
}

// The configured provider is the default.
func TestStoreOfConfiguredProvider(t *testing.T) {
	svc, _, _ := keepers(t, service.Options{Defaults: core.Spec{Provider: "engine"}}, fake.KeeperOptions{})
	made, err := svc.Stores.CreateEnvironment(t.Context(), "", "test")
	if err != nil || made.Provider != "engine" {
		t.Errorf("%+v, %v", made, err)
	}
}

// Stored objects have no owner, so a service with a scope has no access to them.
func TestStoresAreClosedToScopes(t *testing.T) {
	svc, _, _ := keepers(t, service.Options{}, fake.KeeperOptions{})
	scoped := svc.Within(service.Scope{Labels: map[string]string{"owner": "other-user"}})
	_, err := scoped.Stores.Volumes(t.Context(), "cloud")
	wantKind(t, err, core.KindUnauthorized)
	wantKind(t, scoped.Stores.RemoveSecret(t.Context(), "cloud", "token"), core.KindUnauthorized)
	if _, err := svc.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "cloud", App: "others", Name: "theirs"}, service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := scoped.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "cloud", App: "others", Name: "mine"}, service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	apps, err := scoped.Stores.Apps(t.Context(), "")
	if err != nil || len(apps.Items) != 1 || apps.Items[0].Sandboxes != 1 {
		t.Errorf("the apps are %+v, %v", apps, err)
	}
	if err := scoped.Stores.StopApp(t.Context(), "", "others", false); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Sandboxes.Resolve(t.Context(), "theirs"); err != nil {
		t.Errorf("another's sandbox was stopped with the app: %v", err)
	}
	_, err = svc.Sandboxes.Resolve(t.Context(), "mine")
	wantKind(t, err, core.KindNotFound)
}

func TestApps(t *testing.T) {
	svc, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	for _, spec := range []core.Spec{
		{Provider: "plain", App: "web", Name: "a"},
		{Provider: "plain", App: "web", Name: "b"},
		{Provider: "cloud", App: "web", Name: "c"},
		{Provider: "plain", App: "ci", Name: "d"},
	} {
		if _, err := svc.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apps, err := svc.Stores.Apps(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, app := range apps.Items {
		got = append(got, app.Provider+"/"+app.Name+"/"+strings.Repeat("x", app.Sandboxes))
	}
	if want := []string{"plain/ci/x", "cloud/web/x", "plain/web/xx"}; !slices.Equal(got, want) {
		t.Errorf("apps are %q, want %q", got, want)
	}
	if err := svc.Stores.StopApp(t.Context(), "plain", "web", false); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Sandboxes.Resolve(t.Context(), "c"); err != nil {
		t.Errorf("the app of another provider was stopped: %v", err)
	}
	if err := svc.Stores.StopApp(t.Context(), "", "web", false); err != nil {
		t.Fatal(err)
	}
	wantKind(t, svc.Stores.StopApp(t.Context(), "", "web", false), core.KindNotFound)
	if _, err := svc.Sandboxes.Resolve(t.Context(), "d"); err != nil {
		t.Errorf("another app was stopped: %v", err)
	}
	var ended []string
	for record, err := range svc.Records.History(t.Context(), service.HistoryFilter{Op: "terminate"}) {
		if err != nil || record.Result != "ok" {
			t.Errorf("%+v, %v", record, err)
		}
		ended = append(ended, record.Name)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(ended, want) {
		t.Errorf("the log has the ends of %q, want %q: without one a sandbox costs without an end", ended, want)
	}
}

// Values of secrets reach the provider and no file.
func TestSecretsAreNotRecorded(t *testing.T) {
	svc, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	values := map[string]core.SecretValue{"TOKEN": core.NewSecretValue("hunter2")}
	if _, err := svc.Stores.CreateSecret(t.Context(), "cloud", "api", values, core.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for record, err := range svc.Records.History(t.Context(), service.HistoryFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		text := record.Op
		for _, arg := range record.Args {
			if strings.Contains(fmt.Sprint(arg), "hunter2") {
				t.Error("the audit log has the secret")
			}
		}
		ops = append(ops, text)
	}
	if !slices.Equal(ops, []string{"secret create"}) {
		t.Errorf("recorded were %q", ops)
	}
	_, err := svc.Stores.CreateSecret(t.Context(), "cloud", "empty", nil, core.SecretOptions{})
	wantKind(t, err, core.KindUsage)
}

func TestSetNetwork(t *testing.T) {
	svc, _, _ := keepers(t, service.Options{}, fake.KeeperOptions{})
	if _, err := svc.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "cloud", Name: "dev", Network: core.Network{Mode: core.NetworkAll}},
		service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	changed, err := svc.Policy.SetNetwork(
		t.Context(), "dev", core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org"}},
	)
	if err != nil || changed.Spec.Network.Mode != core.NetworkAllow {
		t.Errorf("%+v, %v", changed.Spec.Network, err)
	}
	_, err = svc.Policy.SetNetwork(t.Context(), "dev", core.Network{})
	wantKind(t, err, core.KindUsage)
	_, err = svc.Policy.SetNetwork(t.Context(), "dev", core.Network{Mode: core.NetworkAll, Allow: []string{"pypi.org"}})
	wantKind(t, err, core.KindUsage)
	_, err = svc.Within(service.Scope{Policy: service.LaunchPolicy{Networks: []core.NetworkMode{core.NetworkNone}}}).
		Policy.SetNetwork(t.Context(), "dev", core.Network{Mode: core.NetworkAll})
	wantKind(t, err, core.KindUnauthorized)
}

// If the provider does not run a probe, the service does: until it succeeds, its sandbox ends or the caller gives up.
func TestWaitReady(t *testing.T) {
	serve := map[int]func(net.Conn){80: func(net.Conn) {}}
	svc, _, _ := keepers(t, service.Options{}, fake.KeeperOptions{Serve: serve})
	launch := func(name string, ready *core.Probe) {
		t.Helper()
		if _, err := svc.Sandboxes.Launch(
			t.Context(), core.Spec{Provider: "cloud", Name: name, Ready: ready}, service.LaunchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	soon := core.Duration(5 * time.Millisecond)
	launch("port", &core.Probe{TCP: 80})
	launch("shut", &core.Probe{TCP: 81, Interval: soon})
	launch("file", &core.Probe{Exec: []string{"test", "-e", "/tmp/ready"}, Interval: soon})
	launch("none", nil)
	if err := svc.Sandboxes.WaitReady(t.Context(), "port"); err != nil {
		t.Error(err)
	}
	wantKind(t, svc.Sandboxes.WaitReady(t.Context(), "none"), core.KindConflict)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantKind(t, svc.Sandboxes.WaitReady(short, "shut"), core.KindTimeout)
	done := make(chan error, 2)
	go func() { done <- svc.Sandboxes.WaitReady(t.Context(), "file") }()
	if err := svc.Files.WriteFile(
		t.Context(), "file", "/tmp/ready", strings.NewReader(""), core.WriteOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if err := providertest.Receive(t, done); err != nil {
		t.Error(err)
	}
	go func() { done <- svc.Sandboxes.WaitReady(t.Context(), "shut") }()
	if err := svc.Sandboxes.Terminate(t.Context(), "shut"); err != nil {
		t.Fatal(err)
	}
	// The sandbox appears as ended or as removed, depending on the time.
	if err := providertest.Receive(t, done); !errors.Is(err, core.KindNotFound) && !errors.Is(err, core.KindConflict) {
		t.Errorf("waiting for one that was terminated: %v", err)
	}
	_, err := svc.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "plain", Ready: &core.Probe{TCP: 80}}, service.LaunchOptions{},
	)
	wantKind(t, err, core.KindUnsupported)
}

// Forward copies bytes in both directions and passes on the end of one direction. The end of ctx closes all
// connections.
func TestForward(t *testing.T) {
	echo := func(conn net.Conn) { _, _ = io.Copy(conn, conn) }
	svc, _, _ := keepers(t, service.Options{}, fake.KeeperOptions{Serve: map[int]func(net.Conn){7: echo}})
	if _, err := svc.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "cloud", Name: "dev"}, service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	forward := func(port int, failed func(error)) (address string, stop func() error) {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- svc.Ports.Forward(ctx, "dev", port, listener, failed) }()
		return listener.Addr().String(), func() error { cancel(); return providertest.Receive(t, done) }
	}
	address, stop := forward(7, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(conn, back); err != nil || string(back) != "hello" {
		t.Errorf("%q came back, %v", back, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(back); err == nil {
		t.Error("the connection is open after the forwarding ended")
	}
	why := make(chan error, 1)
	address, stop = forward(8, func(err error) { why <- err })
	refused, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refused.Read(back); err == nil {
		t.Error("a closed port answers")
	}
	_ = refused.Close()
	wantKind(t, <-why, core.KindUnavailable)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Lists and removals at a named provider that cannot be used return an error with the reason. Among several providers,
// one that is not set up has no objects.
func TestNamedProviderThatCannotBeUsed(t *testing.T) {
	svc, cloud, _ := keepers(t, service.Options{}, fake.KeeperOptions{})
	cloud.Inject(fake.OpCheck, fake.Fault{
		Err: core.Errorf(core.KindUnauthorized, "cloud", "", "%w", core.NotSetUp("there is no account")),
	})
	ctx := t.Context()
	lists := map[string]func(provider string) ([]core.ProviderFailure, error){
		"sandboxes": func(p string) ([]core.ProviderFailure, error) { return sandboxFailures(ctx, svc, p) },
		"volumes":   func(p string) ([]core.ProviderFailure, error) { return failures(svc.Stores.Volumes(ctx, p)) },
		"secrets":   func(p string) ([]core.ProviderFailure, error) { return failures(svc.Stores.Secrets(ctx, p)) },
		"images":    func(p string) ([]core.ProviderFailure, error) { return failures(svc.Stores.Images(ctx, p)) },
		"snapshots": func(p string) ([]core.ProviderFailure, error) { return failures(svc.Stores.Snapshots(ctx, p)) },
		"apps":      func(p string) ([]core.ProviderFailure, error) { return failures(svc.Stores.Apps(ctx, p)) },
		"cost": func(p string) ([]core.ProviderFailure, error) {
			report, err := svc.Records.Cost(ctx, service.CostFilter{Provider: p})
			return report.Failures, err
		},
	}
	for what, list := range lists {
		t.Run("list/"+what, func(t *testing.T) {
			failed, err := list("cloud")
			if err != nil || len(failed) != 1 || !strings.Contains(failed[0].Error, "there is no account") {
				t.Errorf("%+v, %v", failed, err)
			}
			if failed, err := list("engine"); err != nil || len(failed) > 0 {
				t.Errorf("at another: %+v, %v", failed, err)
			}
			if failed, err := list(""); err != nil || len(failed) > 0 {
				t.Errorf("at all: %+v, %v", failed, err)
			}
		})
	}
	for what, remove := range map[string]func(provider string) error{
		"volume":      func(p string) error { return svc.Stores.RemoveVolume(ctx, p, "none") },
		"secret":      func(p string) error { return svc.Stores.RemoveSecret(ctx, p, "none") },
		"image":       func(p string) error { return svc.Stores.RemoveImage(ctx, p, "none") },
		"snapshot":    func(p string) error { return svc.Stores.RemoveSnapshot(ctx, p, "none") },
		"environment": func(p string) error { return svc.Stores.RemoveEnvironment(ctx, p, "none") },
		"app":         func(p string) error { return svc.Stores.StopApp(ctx, p, "none", false) },
		"sandbox":     func(p string) error { return svc.Sandboxes.Terminate(ctx, p+"/none") },
	} {
		t.Run("remove/"+what, func(t *testing.T) {
			err := remove("cloud")
			if wantKind(t, err, core.KindUnauthorized); err == nil || !strings.Contains(err.Error(), "there is no account") {
				t.Errorf("%v", err)
			}
			wantKind(t, remove("engine"), core.KindNotFound)
		})
	}
}

func failures[T any](found service.Inventory[T], err error) ([]core.ProviderFailure, error) {
	return found.Failures, err
}

func sandboxFailures(ctx context.Context, svc *service.Service, provider string) ([]core.ProviderFailure, error) {
	listing, err := svc.Sandboxes.List(ctx, core.ListFilter{Provider: provider})
	return listing.Failures, err
}
