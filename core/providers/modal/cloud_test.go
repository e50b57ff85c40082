//go:build linux

package modal_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
)

// A published port answers at the sandbox's address for it.
func TestPorts(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Ports = []core.Port{{Sandbox: 8000}}
	sb := launched(t, p, s)
	if len(sb.Ports) != 1 || sb.Ports[0].Sandbox != 8000 {
		t.Fatalf("the ports are %+v", sb.Ports)
	}
	server := "python3 -m http.server -d /usr/share 8000 >/dev/null 2>&1 & until grep -q ':1F40 [0-9A-F:]* 0A' " +
		"/proc/net/tcp; do sleep 0.05; done"
	if exit := ran(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", server}}); exit.Code != 0 {
		t.Fatal(exit)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	reply, err := client.Get("http://" + sb.Ports[0].Address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	if body, err := io.ReadAll(reply.Body); err != nil || !strings.Contains(string(body), "Directory listing") {
		t.Errorf("it answered %q, %v", body, err)
	}
}

// A sandbox with a GPU is of Modal's first generation, which has separate calls. It supports the same operations as
// others.
func TestFirstGeneration(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.GPU, s.Ports = core.GPU{Type: "H100", Count: 1}, []core.Port{{Sandbox: 8000}}
	s.Command = []string{
		"sh", "-c", "echo out; echo err >&2; until [ -e /tmp/go ]; do sleep 0.05; done; echo last; exit 3",
	}
	s.Ready = &core.Probe{Exec: []string{"true"}, Interval: core.Duration(100 * time.Millisecond)}
	id := launched(t, p, s).ID
	r.faults.Plan(
		"SandboxGetLogs", modaltest.Fault{Code: codes.Unavailable}, modaltest.Fault{},
		modaltest.Fault{Code: codes.Unavailable},
	)
	ctx := t.Context()
	if err := p.WriteFile(ctx, id, "/tmp/f", strings.NewReader("content"), core.WriteOptions{}); err != nil {
		t.Error(err)
	}
	if err := p.WaitReady(ctx, id); err != nil {
		t.Error(err)
	}
	if tunnels, err := p.Tunnels(ctx, id); err != nil || len(tunnels) != 1 {
		t.Errorf("the tunnels are %+v, %v", tunnels, err)
	}
	if _, err := p.ConnectToken(ctx, id, core.ConnectOptions{}); err != nil {
		t.Error(err)
	}
	if changed, err := p.SetNetwork(ctx, id, core.Network{Mode: core.NetworkNone}); err != nil ||
		changed.Spec.Network.Mode != core.NetworkNone {
		t.Errorf("%+v, %v", changed, err)
	}
	if made, err := p.Snapshot(ctx, id, core.SnapshotOptions{}); err != nil || made.ID == "" {
		t.Errorf("%+v, %v", made, err)
	}
	eventually(t, func() bool {
		_, records := logged(t, p, id, core.LogOptions{Tail: -1})
		return len(records) == 2
	})
	finish(t, p, id, "/tmp/go")
	_, records := logged(t, p, id, core.LogOptions{Tail: -1, Follow: true})
	var out, complaints string
	for _, r := range records {
		if r.Stream == core.Stderr {
			complaints += string(r.Data)
		} else {
			out += string(r.Data)
		}
	}
	if out != "out\nlast\n" || complaints != "err\n" {
		t.Errorf("it wrote %q and %q", out, complaints)
	}
	ended, err := p.WaitSandbox(ctx, id)
	if err != nil || ended.ExitCode == nil || *ended.ExitCode != 3 {
		t.Errorf("it ended as %+v, %v", ended, err)
	}
	if text, _ := logged(t, p, id, core.LogOptions{Tail: 1}); text != "last\n" && text != "err\n" {
		t.Errorf("its last line is %q", text)
	}
	if code, err := p.End(ctx, id); err != nil || code == nil || *code != 3 {
		t.Errorf("its code is %v, %v", code, err)
	}
}

// A terminated or expired sandbox has Modal's exit code. End and WaitSandbox both return it.
func TestExitCodesOfEndedSandboxes(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Command = []string{"sleep", "600"}
	running := launched(t, p, s)
	waited := make(chan core.Sandbox, 1)
	go func() {
		sb, err := p.WaitSandbox(providertest.Patient(t), running.ID)
		if err != nil {
			t.Error(err)
		}
		waited <- sb
	}()
	if code, err := p.End(t.Context(), running.ID); err != nil || code == nil || *code != 137 {
		t.Errorf("terminated: %v, %v", code, err)
	}
	if sb := providertest.Receive(t, waited); sb.ExitCode == nil || *sb.ExitCode != 137 ||
		sb.Reason != core.ReasonStopped {
		t.Errorf("the waiting caller sees %+v", sb)
	}
	s.Name, s.Timeout = core.NewName(), core.Duration(time.Second)
	late, err := p.WaitSandbox(providertest.Patient(t), launched(t, p, s).ID)
	if err != nil || late.ExitCode == nil || *late.ExitCode != 124 || late.Reason != core.ReasonTimeout {
		t.Errorf("one whose time was over: %+v, %v", late, err)
	}
	if one, err := p.Get(t.Context(), late.ID); err != nil || one.Ended.IsZero() || one.Ended.Before(one.Created) ||
		one.Image == "" {
		t.Errorf("alone it is %+v, %v", one, err)
	}
	if code, err := p.End(t.Context(), late.ID); err != nil || code == nil || *code != 124 {
		t.Errorf("its code is %v, %v", code, err)
	}
	if _, err := p.End(t.Context(), late.ID); !errors.Is(err, core.KindNotFound) {
		t.Errorf("it is there still: %v", err)
	}
}

// A sandbox that Modal lost has no exit code and does not count as a success; nor does a command in it.
func TestLostSandbox(t *testing.T) {
	for name, command := range map[string][]string{"with an entry command": {"sleep", "600"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			p := modal.New(r.opts)
			defer func() { _ = p.Close() }()
			s := spec()
			s.Command = command
			sb := launched(t, p, s)
			process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = process.Close() }()
			if err := syscall.Kill(r.supervisor(t), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 137 || exit.Signal != 0 ||
				exit.Message == "" {
				t.Errorf("the command: %+v, %v", exit, err)
			}
			if ended, err := p.WaitSandbox(providertest.Patient(t), sb.ID); err != nil || ended.State != core.StateLost ||
				ended.ExitCode != nil || ended.Message == "" {
				t.Errorf("the sandbox: %+v, %v", ended, err)
			}
		})
	}
}

// Without configured prices, a cost limit is rejected, because it would have no effect.
func TestCostWithoutPrices(t *testing.T) {
	r := newRig(t, nil)
	svc := service.New(service.Options{Factories: []core.Factory{modal.Factory(r.opts)}})
	defer func() { _ = svc.Close() }()
	_, err := svc.Sandboxes.Launch(t.Context(), core.Spec{Name: "dear", MaxCost: 1}, service.LaunchOptions{})
	if !errors.Is(err, core.KindUsage) || !strings.Contains(core.HintOf(err), "prices.modal") {
		t.Errorf("%v, %q", err, core.HintOf(err))
	}
}

// A volume keeps one sandbox's writes for the next sandbox.
func TestVolumes(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Volumes = []core.Volume{{Source: "data", Target: "/data"}}
	first := launched(t, p, s)
	if exit := ran(
		t, p, first.ID, core.ExecSpec{Command: []string{"sh", "-c", "mkdir /data/sub; echo kept >/data/sub/file"}},
	); exit.Code != 0 {
		t.Fatal(exit)
	}
	if err := p.Terminate(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	s.Name, s.Volumes = core.NewName(), []core.Volume{{Source: "data/sub", Target: "/part"}}
	second := launched(t, p, s)
	var out strings.Builder
	if exit := ran(
		t, p, second.ID, core.ExecSpec{Command: []string{"cat", "/part/file"}, Stdout: &out},
	); exit.Code != 0 || out.String() != "kept\n" {
		t.Errorf("%+v, %q", exit, out.String())
	}
}

// The commands of an image run once. The error for a failed step contains its output.
func TestImages(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	file := filepath.Join(t.TempDir(), "Dockerfile")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("FROM debian:12\nENV COLOR=red\nRUN echo \\\n  built >/opt-built\nWORKDIR /app\n")
	s := spec()
	s.Dockerfile = file
	var steps []string
	sb, err := p.Launch(t.Context(), s, lease(), func(step core.Progress) { steps = append(steps, step.Step) })
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if exit := ran(
		t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "cat /opt-built; echo $COLOR; pwd"}, Stdout: &out},
	); exit.Code != 0 || out.String() != "built\nred\n/app\n" {
		t.Errorf("%+v, %q", exit, out.String())
	}
	if !strings.Contains(strings.Join(steps, "\n"), "Step 1") {
		t.Errorf("the build's log was not shown: %q", steps)
	}
	write("ARG V=12\r\nFROM --platform=linux/amd64 debian:${V} AS app\r\nARG V\r\nENV COLOR=\"dark red\"\r\nRUN echo " +
		"$V $COLOR \\\r\n# a comment\r\n  >/opt-arg\r\n" +
		"WORKDIR sub/$V\nRUN <<EOF\nread first <<-MORE\n\tinner\nMORE\necho $first >/opt-script\nEOF\nCOPY --chmod=600 " +
		"<<EOF <<\"B\" /docs/\n$V\nEOF\n$V\nB\nRUN [\"touch\", \"a b\"]\n")
	s.Name = core.NewName()
	second := launched(t, p, s)
	out.Reset()
	if exit := ran(
		t, p, second.ID,
		core.ExecSpec{
			Command: []string{
				"sh", "-c", "cat /opt-arg /opt-script /docs/EOF /docs/B; stat -c %a /docs/B; pwd; ls; echo \"$V$COLOR\"",
			},
			Stdout: &out,
		},
	); exit.Code != 0 ||
		out.String() != "12 dark red\ninner\n12\n$V\n600\n/sub/12\na b\ndark red\n" {
		t.Errorf("%+v, %q", exit, out.String())
	}
	write("FROM debian:12\nRUN echo what is wrong; exit 7\n")
	s.Name, s.Dockerfile = core.NewName(), filepath.Dir(file)
	if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindUsage) ||
		!strings.Contains(err.Error(), "exit code 7\n") ||
		!strings.HasSuffix(err.Error(), "\nwhat is wrong") {
		t.Errorf("a build that fails: %v", err)
	}
	write("FROM debian:12\nCOPY a b\n")
	if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindUsage) {
		t.Errorf("COPY: %v", err)
	}
}

// Credentials can come from a profile; a variable takes precedence.
func TestAccount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "modal.toml")
	text := "[a]\ntoken_id = 'ak-a'\ntoken_secret = 'as-a'\nenvironment = 'dev'\n[b]\ntoken_id = 'ak-b'\ntoken_secret = " +
		"'as-b'\nactive = true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "ak-b"},
		{map[string]string{"MODAL_PROFILE": "a"}, "ak-a dev"},
		{map[string]string{"MODAL_TOKEN_ID": "ak-c", "MODAL_TOKEN_SECRET": "as-c", "MODAL_ENVIRONMENT": "x"}, "ak-c x"},
		{map[string]string{"MODAL_PROFILE": "none"}, ""},
	} {
		lookup := func(name string) (string, bool) {
			if name == "MODAL_CONFIG_PATH" {
				return file, true
			}
			value, ok := test.env[name]
			return value, ok
		}
		account := client.FindAccount(lookup)
		if got := strings.TrimSpace(account.TokenID + " " + account.Environment); got != test.want || account.Err != nil {
			t.Errorf("%v: %q, %v", test.env, got, account.Err)
		}
	}
	t.Setenv("MODAL_CONFIG_PATH", file)
	t.Setenv("MODAL_PROFILE", "none")
	if err := modal.New(modal.Options{}).
		Check(t.Context()); !errors.Is(err, core.KindUnauthorized) || !strings.Contains(err.Error(), `profile "none"`) {
		t.Errorf("a profile that is not there: %v", err)
	}
	half := client.FindAccount(func(name string) (string, bool) {
		return map[string]string{"MODAL_TOKEN_ID": "ak-only", "HOME": t.TempDir()}[name], true
	})
	if !errors.Is(half.Err, core.KindUnauthorized) {
		t.Errorf("half a token: %v", half.Err)
	}
}

// The server works for a program that uses the SDK directly.
func TestServerForTheSDK(t *testing.T) {
	newRig(t, nil)
	client, err := sdk.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()
	app, err := client.Apps.FromName(ctx, "app", &sdk.AppFromNameParams{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	box, err := client.Sandboxes.Create(ctx, app, client.Images.FromRegistry("debian:12", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Detach() }()
	if err := box.Filesystem.WriteText(ctx, "hello", "/tmp/new", nil); err != nil {
		t.Fatal(err)
	}
	image, err := box.SnapshotFilesystem(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := client.Sandboxes.Create(ctx, app, image, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Detach() }()
	if text, err := second.Filesystem.ReadText(ctx, "/tmp/new", nil); err != nil || text != "hello" {
		t.Errorf("in the snapshot is %q, %v", text, err)
	}
}
