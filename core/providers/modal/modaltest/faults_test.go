//go:build linux

package modaltest_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// methods lists the RPCs that were made since the last reset.
func (r *rig) methods() map[string]int {
	counts := map[string]int{}
	for _, call := range r.server.Calls() {
		counts[call.Method]++
	}
	return counts
}

func TestFaultsOfCalls(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(nil)

	t.Run("unavailable is tried again", func(t *testing.T) {
		r.server.ResetCalls()
		r.faults.Plan("SandboxListV2", modaltest.Fault{Code: codes.Unavailable, Message: "no"})
		r.faults.Plan("SandboxList", modaltest.Fault{Code: codes.Unavailable, Message: "no"})
		found := 0
		list, err := r.client.Sandboxes.List(t.Context(), &sdk.SandboxListParams{AppID: r.app.AppID})
		if err != nil {
			t.Fatal(err)
		}
		for listed, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			if listed.SandboxID == sb.SandboxID {
				found++
			}
		}
		if calls := r.methods(); found == 0 || calls["SandboxListV2"]+calls["SandboxList"] < 2 {
			t.Errorf("found %d times after %v", found, calls)
		}
	})
	t.Run("exhausted is reported", func(t *testing.T) {
		r.faults.Plan("SandboxCreateV2", modaltest.Fault{Code: codes.ResourceExhausted, Message: "no machine is free"})
		_, err := r.client.Sandboxes.Create(t.Context(), r.app, r.image, nil)
		if err == nil || !strings.Contains(err.Error(), "no machine is free") {
			t.Errorf("creating answers %v", err)
		}
	})
	t.Run("a lost answer comes again", func(t *testing.T) {
		r.faults.Plan(
			"SandboxCreateV2", modaltest.Fault{Code: codes.Unavailable, Message: "no", After: true},
			modaltest.Fault{Code: codes.Internal, Message: "no"},
		)
		r.faults.Plan("SandboxTerminateV2", modaltest.Fault{Code: codes.Unavailable, Message: "no", After: true})
		made := r.create(&sdk.SandboxCreateParams{Name: "once"})
		found, err := r.client.Sandboxes.FromName(t.Context(), "tests", "once", nil)
		if err != nil || found.SandboxID != made.SandboxID {
			t.Errorf("there is %+v, %v", found, err)
		}
		if code, err := made.Terminate(t.Context(), &sdk.SandboxTerminateParams{Wait: true}); err != nil || code != 137 {
			t.Errorf("it ended with %d, %v", code, err)
		}
	})
	t.Run("throttling is waited for", func(t *testing.T) {
		r.server.ResetCalls()
		const wait = 300 * time.Millisecond
		r.faults.Plan(
			"SandboxCreateV2", modaltest.Fault{Code: codes.ResourceExhausted, Message: "slow down", RetryAfter: wait},
		)
		begin := time.Now()
		if _, err := r.client.Sandboxes.Create(t.Context(), r.app, r.image, nil); err != nil {
			t.Fatal(err)
		}
		if took, calls := time.Since(begin), r.methods()["SandboxCreateV2"]; took < wait || calls != 2 {
			t.Errorf("it took %s and %d calls", took, calls)
		}
	})
	t.Run("latency", func(t *testing.T) {
		const latency = 80 * time.Millisecond
		r.faults.SetLatency(latency)
		defer r.faults.SetLatency(0)
		begin := time.Now()
		if _, err := sb.Poll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < latency {
			t.Errorf("a call took %s", took)
		}
	})
	t.Run("slow scheduling", func(t *testing.T) {
		const wait = 400 * time.Millisecond
		r.faults.SetScheduling(wait)
		begin := time.Now()
		slow := r.create(nil)
		run(t, slow, "true")
		if took := time.Since(begin); took < wait {
			t.Errorf("the first command ended after %s", took)
		}
		// A sandbox that waits for a machine can be terminated.
		r.faults.SetScheduling(time.Hour)
		defer r.faults.SetScheduling(0)
		never := r.create(nil)
		if code, err := never.Terminate(t.Context(), &sdk.SandboxTerminateParams{Wait: true}); err != nil || code != 137 {
			t.Errorf("ended with %d, %v", code, err)
		}
	})
}

// Output arrives complete although its stream is cut repeatedly and every connection fails.
func TestOutputSurvivesDisconnects(t *testing.T) {
	const size = 4 << 20
	for _, tt := range []struct {
		name  string
		begin func(*rig) (end func())
	}{
		{"cut streams", func(r *rig) func() {
			r.faults.Cut("TaskExecStdioRead", 700_000)
			return func() { r.faults.Cut("TaskExecStdioRead", 0) }
		}},
		{"broken connections", func(r *rig) func() {
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for range 5 {
					select {
					case <-stop:
						return
					case <-time.After(60 * time.Millisecond):
						_ = r.server.Disconnect()
					}
				}
			}()
			return func() { close(stop); <-done }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			sb := r.create(nil)
			want := sha256.New()
			for range size / 16 {
				_, _ = io.WriteString(want, "0123456789abcde\n")
			}
			process, err := sb.Exec(t.Context(), []string{"sh", "-c", "yes 0123456789abcde | head -c 4194304; exit 3"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			end := tt.begin(r)
			got := sha256.New()
			n, err := io.Copy(got, process.Stdout)
			end()
			if err != nil || n != size || string(got.Sum(nil)) != string(want.Sum(nil)) {
				t.Errorf("%d bytes of %d came, %v", n, size, err)
			}
			if code, err := process.Wait(providertest.Patient(t), nil); err != nil || code != 3 {
				t.Errorf("code %d, %v", code, err)
			}
		})
	}
}

// Expired tokens are replaced without an error.
func TestTokensExpire(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) { o.TokenLife = 3 * time.Second })
	sb := r.create(nil)
	run(t, sb, "true")
	time.Sleep(3200 * time.Millisecond)
	run(t, sb, "true")
	if calls := r.methods(); calls["SandboxGetCommandRouterAccess"]+calls["TaskGetCommandRouterAccess"] == 0 {
		t.Errorf("no fresh token was asked for: %v", calls)
	}
}

// A connect token gives access to the sandbox from its allowed addresses.
func TestConnectTokens(t *testing.T) {
	r := newRig(t, nil)
	const serve = `mkdir -p /srv/www && cd /srv/www && echo served >page && exec python3 -m http.server 8080`
	open := r.create(&sdk.SandboxCreateParams{Command: []string{"sh", "-c", serve}, EncryptedPorts: []int{8080}})
	closed := r.create(&sdk.SandboxCreateParams{
		Command: []string{"sh", "-c", serve}, EncryptedPorts: []int{8080}, InboundCIDRAllowlist: []string{"192.0.2.0/24"},
	})
	get := func(sb *sdk.Sandbox, token string) (int, string) {
		t.Helper()
		made, err := sb.CreateConnectToken(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if token == "" {
			token = made.Token
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, made.URL+"/page", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	defer http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(20 * time.Second)
	code, text := get(open, "")
	for ; code == http.StatusBadGateway && time.Now().Before(deadline); code, text = get(open, "") {
		time.Sleep(20 * time.Millisecond)
	}
	if code != http.StatusOK || text != "served\n" {
		t.Errorf("%d %q", code, text)
	}
	if code, _ := get(open, "wrong"); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	if code, _ := get(closed, ""); code != http.StatusForbidden {
		t.Errorf("a connection from outside the allowlist: %d", code)
	}
	tunnels, err := closed.Tunnels(t.Context(), 10*time.Second, nil)
	if err != nil || tunnels[8080] == nil || tunnels[8080].Port == 0 {
		t.Fatalf("the tunnels are %+v, %v", tunnels, err)
	}
	answer, err := http.Get(fmt.Sprintf("http://%s:%d/page", tunnels[8080].Host, tunnels[8080].Port))
	if err == nil {
		_ = answer.Body.Close()
		t.Errorf("the port answers a connection from outside the allowlist: %s", answer.Status)
	}
}

// A request for a missing object is rejected. The server records and logs a setting that has no effect here.
func TestRequests(t *testing.T) {
	var log strings.Builder
	r := newRig(t, func(o *modaltest.Options) {
		o.Proxies = []string{"exit"}
		o.Logger = logger(&log)
	})
	proxy, err := r.client.Proxies.FromName(t.Context(), "exit", nil)
	if err != nil {
		t.Fatal(err)
	}
	sb := r.create(&sdk.SandboxCreateParams{GPU: "H100:2", Regions: []string{"us-east"}, Proxy: proxy})
	if got := r.server.Definition(sb.SandboxID).GetResources().
		GetGpuConfig(); got.GetGpuType() != "H100" || got.GetCount() != 2 {
		t.Errorf("recorded %v", got)
	}
	if want := `settings="[gpu regions proxy]"`; !strings.Contains(log.String(), want) {
		t.Errorf("%s is not in %s", want, log.String())
	}
	var missing sdk.NotFoundError
	if _, err := r.client.Proxies.FromName(t.Context(), "none", nil); !errors.As(err, &missing) {
		t.Errorf("an unknown proxy: %v", err)
	}
	if _, err := r.client.Sandboxes.Create(
		t.Context(), r.app, r.image, &sdk.SandboxCreateParams{Regions: []string{"atlantis"}},
	); err == nil {
		t.Error("a region that is none was taken")
	}
	if _, err := r.client.Sandboxes.Create(
		t.Context(), r.app, r.image, &sdk.SandboxCreateParams{InboundCIDRAllowlist: []string{"here"}},
	); err == nil {
		t.Error("an inbound CIDR that is none was taken")
	}
}
