package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// stopByHand stops a container, as a user of the docker command would.
func stopByHand(t *testing.T, c *client.Client, id string) {
	t.Helper()
	if _, err := c.ContainerStop(t.Context(), containerOf(id), client.ContainerStopOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The container ends itself: no other process of sb exists at that time.
func TestContainerEndsWithoutClient(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		for _, test := range []struct {
			reason core.Reason
			change func(*core.Spec)
		}{
			{core.ReasonTimeout, func(spec *core.Spec) { spec.Timeout = core.Duration(time.Second) }},
			{core.ReasonIdle, func(spec *core.Spec) { spec.IdleTimeout = core.Duration(time.Second) }},
		} {
			p := e.open(t, nil)
			sb := box(t, p, test.change)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			c := e.raw(t)
			eventually(t, "the container ends", func() bool {
				found, err := c.ContainerInspect(t.Context(), containerOf(sb.ID), client.ContainerInspectOptions{})
				return err == nil && !found.Container.State.Running
			})
			other := e.open(t, nil)
			got, err := other.Get(t.Context(), sb.ID)
			if err != nil || got.State != core.StateExited || got.Reason != test.reason || got.Ended.IsZero() {
				t.Errorf("%s: another sb sees %s (%s), %v", test.reason, got.State, got.Reason, err)
			}
			end(t, other, sb.ID)
			_ = other.Close()
		}
	})
}

// A running command keeps a sandbox from being idle.
func TestBusyIsNotIdle(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) { spec.IdleTimeout = core.Duration(time.Second) })
		if out, code := sh(t, p, sb.ID, "sleep 2.5; echo done"); out != "done\n" || code != 0 {
			t.Errorf("a command longer than the idle time: %q, %d", out, code)
		}
	})
}

// A container that cannot start returns the reason, even if its ports were in use before.
func TestContainerStartErrors(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		c := e.raw(t)
		p := e.open(t, nil)
		ports := []core.Port{{Sandbox: 80}}
		created, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Name: namePrefix + core.NewName(),
			Config: &container.Config{
				Image: testImage, Entrypoint: []string{"no-such-program"}, ExposedPorts: exposed(ports),
				AttachStdin: true, OpenStdin: true,
			},
			HostConfig: &container.HostConfig{PortBindings: published(ports)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := c.ContainerRemove(t.Context(), created.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}()
		if err := p.engine.start(t.Context(), created.ID, wire.Config{}, nil, time.Time{}); err == nil ||
			!strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("it says %v", err)
		}
	})
}

// Containers that sb did not create are not sandboxes, whatever their names.
func TestForeignContainers(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		c := e.raw(t)
		p := e.open(t, nil)
		name := core.NewName()
		created, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Name: namePrefix + name,
			Config: &container.Config{
				Image: testImage, Cmd: []string{"sleep", "600"}, Labels: map[string]string{"sb.name": name},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, err := c.ContainerRemove(t.Context(), created.ID, client.ContainerRemoveOptions{Force: true})
			if err != nil {
				t.Errorf("the foreign container cannot be removed: %v", err)
			}
		}()
		id := idOf(created.ID)
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sb := range all {
			if sb.ID == id {
				t.Error("it is listed")
			}
		}
		_, err = p.FindName(t.Context(), name)
		wantKind(t, err, core.KindNotFound)
		_, err = p.Get(t.Context(), id)
		wantKind(t, err, core.KindNotFound)
		_, err = p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"true"}})
		wantKind(t, err, core.KindNotFound)
		wantKind(t, p.Terminate(t.Context(), id), core.KindNotFound)
		_, err = p.Launch(
			t.Context(), core.Spec{Name: name, Image: testImage, Network: core.Network{Mode: core.NetworkNone}}, core.Lease{},
			nil,
		)
		wantKind(t, err, core.KindConflict)
		if _, err := c.ContainerInspect(t.Context(), created.ID, client.ContainerInspectOptions{}); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	})
}

// Containers inherit the labels of their image. A container of an image that was committed from a sandbox is not a
// sandbox. Those labels do not describe a sandbox of that image, either.
func TestLabelsOfAnImage(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		c := e.raw(t)
		p := e.open(t, nil)
		image := "localhost/sb-test-labels:" + core.NewName()
		sb := box(t, p, nil)
		_, err := c.ContainerCommit(t.Context(), containerOf(sb.ID), client.ContainerCommitOptions{
			Reference: image, Config: &container.Config{},
			Changes: []string{"LABEL " + labelRuntime + "=forged", "LABEL " + labelHelper +
				"=" + version, `CMD ["sleep", "600"]`},
		})
		if err != nil {
			t.Fatal(err)
		}
		removeImage(t, c, image)
		created, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: image}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := c.ContainerRemove(
				context.WithoutCancel(t.Context()), created.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true},
			); err != nil {
				t.Errorf("the foreign container cannot be removed: %v", err)
			}
		})
		all, err := p.List(t.Context())
		if err != nil || slices.ContainsFunc(all, func(sb core.Sandbox) bool { return sb.ID == idOf(created.ID) }) {
			t.Errorf("listed: %+v, %v", all, err)
		}
		wantKind(t, p.Terminate(t.Context(), idOf(created.ID)), core.KindNotFound)
		of := box(t, p, func(spec *core.Spec) { spec.Image = image })
		if of.Runtime != sb.Runtime {
			t.Errorf("a sandbox of it runs in %q, not in %q", of.Runtime, sb.Runtime)
		}
		broken, err := p.engine.brokenOff(t.Context(), -fillingAge)
		if err != nil || slices.ContainsFunc(broken, func(c container.Summary) bool {
			return c.ID == created.ID ||
				idOf(c.ID) == of.ID
		}) {
			t.Errorf("found to sweep: %+v, %v", broken, err)
		}
	})
}

// The labels of a container describe its sandbox, except for the secrets.
func TestLabels(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.App, spec.Timeout, spec.Labels = "web", core.Duration(time.Hour), map[string]string{"team": "x"}
			spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
		})
		found, err := e.raw(t).ContainerInspect(t.Context(), containerOf(sb.ID), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(found.Raw), "s3cret") {
			t.Error("the engine knows the secret")
		}
		labels := found.Container.Config.Labels
		if labels[labelApp] != "web" || labels[labelUser+"team"] != "x" || labels[labelName] != sb.Name ||
			labels[labelExpires] == "" || !strings.Contains(labels[labelOwner], "test") {
			t.Errorf("the labels are %v", labels)
		}
		other := e.open(t, nil)
		got, err := other.FindName(t.Context(), sb.Name)
		if err != nil || got.ID != sb.ID || got.App != "web" || got.Labels["team"] != "x" ||
			!got.Expires.Equal(sb.Expires) || got.Lease.Owner != sb.Lease.Owner {
			t.Errorf("another sb sees %+v, %v", got, err)
		}
	})
}

// A dead sandbox's name is free, and its container is renamed.
func TestNameOfEndedSandbox(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		name := core.NewName()
		dead := box(t, p, func(spec *core.Spec) { spec.Name, spec.Command = name, []string{"true"} })
		if _, err := p.WaitSandbox(providertest.Patient(t), dead.ID); err != nil {
			t.Fatal(err)
		}
		alive := box(t, p, func(spec *core.Spec) { spec.Name = name })
		if got, err := p.FindName(t.Context(), name); err != nil || got.ID != alive.ID {
			t.Errorf("the name finds %+v, %v", got, err)
		}
		if got, err := p.Get(t.Context(), dead.ID); err != nil || got.Name != name || got.State != core.StateExited {
			t.Errorf("the dead one is %+v, %v", got, err)
		}
		end(t, p, alive.ID)
		if got, err := p.FindName(t.Context(), name); err != nil || got.ID != dead.ID {
			t.Errorf("the name finds %+v, %v", got, err)
		}
	})
}

func TestRuntimeOf(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		usual := box(t, e.open(t, nil), nil)
		if usual.Runtime != "runc" && usual.Runtime != "crun" {
			t.Errorf("it runs in %q", usual.Runtime)
		}
		named := e.open(t, func(o *Options) { o.Runtime = usual.Runtime })
		if sb := box(t, named, nil); sb.Runtime != usual.Runtime {
			t.Errorf("with docker.runtime it runs in %q", sb.Runtime)
		}
		// No test machine has Kata, but an engine may have its name.
		for _, runtime := range []string{"none-of-these", "kata"} {
			p, err := New(Options{
				Host: e.host, Image: testImage, Guest: guestProgram(), Runtime: runtime, LookupEnv: dockertest.Environment(nil),
			})
			if err != nil {
				t.Fatal(err)
			}
			wantKind(t, p.Check(t.Context()), core.KindUnsupported)
			_, err = p.Launch(t.Context(), core.Spec{Name: core.NewName(), Image: testImage}, core.Lease{}, nil)
			wantKind(t, err, core.KindUnsupported)
			if doctor, ok := p.(core.Doctor); !ok || !slices.ContainsFunc(doctor.Diagnose(t.Context()), func(
				f core.Finding,
			) bool {
				return f.Name == "runtime" && f.Status == statusError && strings.Contains(f.Detail, runtime)
			}) {
				t.Error("the doctor does not find that the runtime is not there")
			}
			_ = p.Close()
		}
	})
}

// A sandbox that a user starts with the engine's command receives no configuration. It ends soon, and its message names
// the right command.
func TestStartedByHand(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) { spec.Persist = true })
		if out, code := sh(t, p, sb.ID, "echo kept > /tmp/file"); code != 0 {
			t.Fatalf("writing a file: %q, %d", out, code)
		}
		c := e.raw(t)
		stopByHand(t, c, sb.ID)
		if _, err := c.ContainerStart(t.Context(), containerOf(sb.ID), client.ContainerStartOptions{}); err != nil {
			t.Fatal(err)
		}
		var got core.Sandbox
		eventually(t, "it ends", func() bool {
			var err error
			got, err = p.Get(t.Context(), sb.ID)
			return err == nil && got.State == core.StateStopped && got.Reason == core.ReasonLaunch
		})
		logs, err := c.ContainerLogs(
			t.Context(), containerOf(sb.ID), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = logs.Close() }()
		var text bytes.Buffer
		if _, err := stdcopy.StdCopy(&text, &text, logs); err != nil {
			t.Fatal(err)
		}
		const way = "start it with: sb start NAME"
		if !strings.Contains(text.String(), way) || !strings.Contains(got.Message, way) {
			t.Errorf("the engine's log says %q, sb %q; want %q", &text, got.Message, way)
		}
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if out, code := sh(t, p, sb.ID, "cat /tmp/file"); out != "kept\n" || code != 0 {
			t.Errorf("after sb start: %q, %d", out, code)
		}
	})
}

// through returns the provider over a proxy to the engine. answer may answer a request instead of the engine.
func (e testEngine) through(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *Provider {
	t.Helper()
	return e.behind(t, answer).open(t, nil)
}

// behind returns the engine behind a proxy. answer may answer a request instead of the engine.
func (e testEngine) behind(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) testEngine {
	t.Helper()
	socket := strings.TrimPrefix(e.host, "unix://")
	engine := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	engine.FlushInterval = -1
	engine.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(
		ctx context.Context, _, _ string,
	) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			engine.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	e.host = "tcp://" + proxy.Listener.Addr().String()
	return e
}

// Podman ends a stream of events when it starts a new log. Watch resumes, and reports the events in between.
func TestWatchResumes(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		direct := e.open(t, nil)
		if err := direct.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !direct.engine.Podman {
			return
		}
		calls, launched := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p := e.through(t, func(w http.ResponseWriter, r *http.Request) (answered bool) {
			if strings.HasSuffix(r.URL.Path, "/events") {
				once.Do(func() {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusOK)
					close(calls)
					select {
					case <-launched:
					case <-r.Context().Done():
					}
					answered = true
				})
			}
			return answered
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		seen := make(chan string)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			for event, err := range p.Watch(ctx) {
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				select {
				case seen <- event.Sandbox:
				case <-ctx.Done():
					return
				}
			}
		})
		providertest.Receive(t, calls)
		sb := box(t, direct, nil)
		close(launched)
		for {
			select {
			case id := <-seen:
				if id == sb.ID {
					return
				}
			case <-ctx.Done():
				t.Fatal("the launch was not reported")
			}
		}
	})
}

// Podman cleans up some time after a stop. That also removes the preparation of a start in the meantime: the attach
// fails, or the connection ends before the first output, with Podman's error or without one.
func TestStartWhilePodmanClearsUp(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		direct := e.open(t, nil)
		sb := box(t, direct, func(spec *core.Spec) { spec.Persist = true })
		if !direct.engine.Podman {
			return
		}
		endAfter := func(text string) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_, err = io.WriteString(
						conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"+text,
					)
				}
				if err := errors.Join(err, conn.Close()); err != nil {
					t.Error(err)
				}
			}
		}
		const podmans = "Error: broken pipe\n"
		for _, lost := range []func(http.ResponseWriter){
			func(w http.ResponseWriter) {
				http.Error(w, `{"message":"the container is not initialized"}`, http.StatusInternalServerError)
			},
			endAfter(""),
			endAfter("\x02\x00\x00\x00\x00\x00\x00" + string(rune(len(podmans))) + podmans),
		} {
			if err := direct.Stop(t.Context(), sb.ID, time.Second); err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			provider := e.through(t, func(w http.ResponseWriter, r *http.Request) (answered bool) {
				if strings.HasSuffix(r.URL.Path, "/attach") {
					once.Do(func() {
						lost(w)
						answered = true
					})
				}
				return answered
			})
			if _, err := provider.Start(t.Context(), sb.ID); err != nil {
				t.Error(err)
			}
			if out, code := sh(t, direct, sb.ID, "echo well"); out != "well\n" || code != 0 {
				t.Errorf("after the start: %q, %d", out, code)
			}
		}
	})
}

// The second of two starts finds the sandbox started, and does not wait for the answer that the first received.
func TestStartedTwice(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) { spec.Persist = true })
		before, ok := lastState(t.Context(), p.engine, sb.ID)
		if !ok {
			t.Fatal("the engine has no state of it")
		}
		stopByHand(t, e.raw(t), sb.ID)
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		k := p.known[sb.ID]
		// Waiting for the first process's answer would end with an error, after readyTimeout.
		if err := p.engine.start(t.Context(), k.container, wire.Config{}, k.key, before.Time); err != nil {
			t.Errorf("the second start: %v", err)
		}
	})
}

// A wait for a sandbox that is being created polls the engine slowly.
func TestWaitDuringCreation(t *testing.T) {
	spec := core.Spec{Name: "made"}
	described, err := labels(spec, lease(spec), wire.NewDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("a", 64)
	answer, err := json.Marshal(map[string]any{
		"Id": id, "Name": "/" + namePrefix + spec.Name, "Created": time.Now(), "State": map[string]any{"Status": "created"},
		"Config": map[string]any{"Labels": described},
	})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		calls.Add(1)
		switch {
		case strings.HasSuffix(r.URL.Path, "/wait"):
			_, _ = io.WriteString(w, `{"StatusCode":0}`)
		case strings.HasSuffix(r.URL.Path, "/json"):
			_, _ = w.Write(answer)
		}
	}))
	t.Cleanup(server.Close)
	p := &Provider{opts: Options{Host: "tcp://" + server.Listener.Addr().
		String(), LookupEnv: dockertest.Environment(nil)}, known: map[string]known{}}
	t.Cleanup(func() { _ = p.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 3*creatingPoll)
	defer cancel()
	_, err = p.WaitSandbox(ctx, idOf(id))
	wantKind(t, err, core.KindTimeout)
	if n := calls.Load(); n < 2 || n > 20 {
		t.Errorf("in that time the engine was asked %d times", n)
	}
}
