package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

func TestExec(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(args{"name": "dev"})
	got := a.Call("exec", args{"sandbox": sb, "command": "echo out; echo err >&2; exit 3"})
	checkOutput(t, "exec", got)
	if got["stdout"] != "out\n" || got["stderr"] != "err\n" || got["exit_code"] != 3.0 || got["running"] != false {
		t.Errorf("got %v", got)
	}
	if text := textOf(a.result("exec", args{
		"sandbox": "dev", "argv": []string{"echo", "a  b"},
	})); !strings.Contains(text, "exit code 0") || !strings.Contains(text, "a  b") {
		t.Errorf("the text twin is %q", text)
	}
	if got := a.Call("exec", args{"sandbox": sb, "command": "cat", "stdin": "given"}); got["stdout"] != "given" {
		t.Errorf("stdin: %v", got)
	}
	if got := a.Call("exec", args{"sandbox": sb, "argv": []string{"no-such-program"}}); got["exit_code"] != 127.0 {
		t.Errorf("a program that is not there: %v", got)
	}
	result := a.result("exec", args{"sandbox": sb, "command": "sleep 60", "timeout_seconds": 1})
	if got, _ := result.StructuredContent.(map[string]any); got["exit_code"] != 124.0 || got["timed_out"] != true ||
		!strings.HasPrefix(textOf(result), "timed out after ") {
		t.Errorf("a time limit: %v, %s", got, textOf(result))
	}
	a.fails(core.KindUsage, "exec", args{"sandbox": sb})
	a.fails(core.KindUsage, "exec", args{"sandbox": sb, "command": "true", "argv": []string{"true"}})
	if text := a.fails(core.KindNotFound, "exec", args{"sandbox": "other", "command": "true"}); !strings.Contains(
		text, "hint: ",
	) {
		t.Errorf("no hint: %s", text)
	}
	a.fails(core.KindNotFound, "exec_wait", args{"sandbox": sb, "exec_id": "99"})
}

// A command that outlives the soft deadline keeps running, and all its output can be read.
func TestExecOutlivesItsCall(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 50 * time.Millisecond})
	a := b.connect(t)
	sb := a.Launch(nil)
	got := a.Call("exec", args{"sandbox": sb, "command": "echo first; read line; echo got $line", "keep_stdin_open": true})
	if got["running"] != true || got["exit_code"] != nil {
		t.Fatalf("it is not running: %v", got)
	}
	id := got["exec_id"]
	got = a.Call("exec_wait", args{"sandbox": sb, "exec_id": id, "wait_seconds": 0})
	if got["stdout"] != "first\n" || got["running"] != true {
		t.Errorf("a look: %v", got)
	}
	var after string
	rest := args{"sandbox": sb, "exec_id": id, "wait_seconds": 3600, "stdin": "second\n"} // more than the soft deadline
	for got["running"] == true {
		rest["cursor"] = got["cursor"]
		got = a.Call("exec_wait", rest)
		checkOutput(t, "exec_wait", got)
		text, _ := got["stdout"].(string)
		after += text
		delete(rest, "stdin")
	}
	if after != "got second\n" || got["exit_code"] != 0.0 {
		t.Errorf("after the cursor: %q, %v", after, got)
	}
	if got = a.Call("exec_wait", args{"sandbox": sb, "exec_id": id}); got["stdout"] != "first\ngot second\n" {
		t.Errorf("all of it: %v", got)
	}
	a.fails(core.KindConflict, "exec_wait", args{"sandbox": sb, "exec_id": id, "stdin": "more"})
	a.fails(core.KindUsage, "exec_wait", args{"sandbox": sb, "exec_id": id, "cursor": "yesterday"})
}

func TestExecInTheBackground(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	got := a.Call("exec", args{"sandbox": sb, "command": "sleep 60", "background": true})
	if got["running"] != true {
		t.Fatalf("got %v", got)
	}
	got = a.Call("exec_kill", args{"sandbox": sb, "exec_id": got["exec_id"]})
	checkOutput(t, "exec_kill", got)
	if got["running"] != false || got["exit_code"] != 143.0 {
		t.Errorf("after TERM: %v", got)
	}
}

// runs reports whether a sandbox has a running command.
func (b *bench) runs(t *testing.T, sandbox string) bool {
	t.Helper()
	execs, err := b.service.Execs.List(t.Context(), sandbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range execs {
		if e.Running() {
			return true
		}
	}
	return false
}

func TestCanceledRequestEndsItsCommand(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	sb := a.Launch(nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = a.try(ctx, "exec", args{"sandbox": sb, "command": "sleep 600"})
	}()
	eventually(t, "the command runs", func() bool { return b.runs(t, sb) })
	cancel()
	providertest.Receive(t, ended)
	eventually(t, "the command has ended", func() bool { return !b.runs(t, sb) })
}

// Over HTTP, a notification cancels a request. The end of its connection alone means that the client vanished: the
// command continues.
func TestCanceledRequestOverHTTP(t *testing.T) {
	for _, cancelled := range []bool{true, false} {
		s := newSite(t, setup.Options{})
		sb := s.visit(t, "").Launch(nil)
		response, _ := s.ask(t, "POST", "/mcp", initialize, nil)
		inSession := func(r *http.Request) { r.Header.Set("Mcp-Session-Id", response.Header.Get("Mcp-Session-Id")) }
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			body := `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":"` + sb +
				`","command":"sleep 600"}}}`
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.web.URL()+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			inSession(request)
			if response, err := s.http.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}()
		eventually(t, "the command runs", func() bool { return s.runs(t, sb) })
		if cancelled {
			s.ask(t, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`, inSession)
			eventually(t, "the command has ended", func() bool { return !s.runs(t, sb) })
		}
		hangUp()
		providertest.Receive(t, ended)
		if !cancelled && !s.runs(t, sb) {
			t.Error("the command ended with its client's connection")
		}
	}
}

func TestCommandOutlivesClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup.Options{})
	gone := b.connect(t)
	sb := gone.Launch(nil)
	id := gone.Call("exec", args{"sandbox": sb, "command": "sleep 1; echo survived", "wait_seconds": 0})["exec_id"]
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = gone.try(t.Context(), "exec", args{"sandbox": sb, "command": "sleep 600"})
	}()
	eventually(t, "both commands run", func() bool {
		execs, err := b.service.Execs.List(t.Context(), sb)
		return err == nil && len(execs) == 2
	})
	gone.hangUp()
	providertest.Receive(t, ended)
	back := b.connect(t)
	if got := back.Call(
		"exec_wait", args{"sandbox": sb, "exec_id": id, "wait_seconds": 15},
	); got["stdout"] != "survived\n" {
		t.Errorf("got %v", got)
	}
	if !b.runs(t, sb) {
		t.Error("the command of the call under way did not survive")
	}
}

func TestProgressComesBeforeTheResult(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	a.Call("exec", args{"sandbox": sb, "command": "echo working; sleep 1"})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, note := range a.notes {
		if note.Method == string(mcp.MethodNotificationProgress) && note.Params.AdditionalFields["message"] == "working" {
			return
		}
	}
	t.Errorf("no progress was reported: %v", a.notes)
}

func TestOutputBudget(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	result := a.result(
		"exec",
		args{"sandbox": sb, "command": "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", "max_output": 1000},
	)
	got, _ := result.StructuredContent.(map[string]any)
	stdout, _ := got["stdout"].(string)
	if len(stdout) > 1300 || !strings.HasPrefix(stdout, "line 0\n") || !strings.HasSuffix(stdout, "line 1999\n") ||
		got["truncated"] != true {
		t.Errorf("%d characters: %q", len(stdout), stdout)
	}
	link, ok := result.Content[len(result.Content)-1].(mcp.ResourceLink)
	if !ok {
		t.Fatalf("no link to the whole: %v", result.Content)
	}
	whole := a.readText(link.URI)
	if !strings.Contains(whole, "line 1000\n") || strings.Count(whole, "\n") != 2000 {
		t.Errorf("the whole has %d lines", strings.Count(whole, "\n"))
	}
	if part := a.readText(link.URI + "?offset=7&limit=7"); part != "line 1\n" {
		t.Errorf("a range: %q", part)
	}
	if found := a.readText(link.URI + "?grep=^line 10.0$"); !strings.HasPrefix(found, "1001:line 1000\n") ||
		!strings.HasSuffix(found, "[10 lines match]") {
		t.Errorf("a search: %q", found)
	}
}

func TestBinaryOutputIsNotMangled(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	got := a.Call("exec", args{"sandbox": sb, "command": `printf '\377\000\001'`})
	if stdout, _ := got["stdout"].(string); !strings.Contains(stdout, "3 bytes that are not text") ||
		!strings.Contains(stdout, "ff0001") {
		t.Errorf("got %q", stdout)
	}
	blob, ok := a.read("sandbox://" + sb + "/exec/1/stdout").(mcp.BlobResourceContents)
	if !ok || blob.Blob != "/wAB" {
		t.Errorf("the resource is %+v", blob)
	}
}

func TestSecretsAreRedacted(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(args{"secrets": map[string]string{"TOKEN": "launch-value-1"}})
	got := a.Call(
		"exec",
		args{
			"sandbox": sb, "command": "echo $TOKEN $OTHER; echo $TOKEN > /tmp/t",
			"secrets": map[string]string{"OTHER": "exec-value-2"},
		},
	)
	if got["stdout"] != "[redacted] [redacted]\n" {
		t.Errorf("output: %v", got["stdout"])
	}
	if text := a.readText("sandbox://" + sb + "/exec/1/stdout"); text != "[redacted] [redacted]\n" {
		t.Errorf("resource: %q", text)
	}
	if got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/t"}); got["content"] != "[redacted]\n" ||
		got["redacted"] != true {
		t.Errorf("file: %v", got)
	}
	if text := a.readText("sandbox://" + sb + "/files/tmp/t?grep=."); strings.Contains(text, "launch-value") {
		t.Errorf("search: %q", text)
	}
	a.Call("exec", args{"sandbox": sb, "command": "mkdir -p /tmp/names/$TOKEN"})
	if got := a.Call("file_list", args{"sandbox": sb, "path": "/tmp/names"}); strings.Contains(
		fmt.Sprint(got), "launch-value",
	) {
		t.Errorf("names: %v", got)
	}
	if text := a.readText("sandbox://" + sb + "/files/tmp/names"); strings.Contains(text, "launch-value") {
		t.Errorf("names in a resource: %s", text)
	}
	if got := a.Call(
		"exec", args{"sandbox": sb, "argv": []string{"/launch-value-1"}},
	); got["message"] != "/[redacted]: not found" {
		t.Errorf("a message: %v", got["message"])
	}
}

// Secrets that the server or a template gives to every sandbox are redacted in its output.
func TestGivenSecretsAreRedacted(t *testing.T) {
	provider := fake.New(fake.Options{})
	template := core.Spec{Secrets: []core.Secret{{Name: "OF_TEMPLATE", Value: core.NewSecretValue("template-value-1")}}}
	svc := service.New(service.Options{Actor: "mcp", Templates: func(string) (core.Spec, bool, error) {
		return template, true, nil
	}, Factories: []core.Factory{{
		// this provider does not report secrets
		Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return cannotRenew{provider}, nil },
	}}})
	given := []core.Secret{
		{Name: "OF_SERVER", Value: core.NewSecretValue("server-value-1")},
		{Name: "OWN", Value: core.NewSecretValue("server-value-2")},
	}
	a := benchOver(t, provider, svc, setup.Options{Policy: service.LaunchPolicy{Template: "t"}, Secrets: given}).connect(t)
	sb := a.Launch(args{"secrets": map[string]string{"OWN": "own-value-1"}})
	if got := a.Call(
		"exec", args{"sandbox": sb, "command": `echo $OF_TEMPLATE $OF_SERVER $OWN; [ "$OWN" = own-value-1 ] && echo own`},
	); got["stdout"] != "[redacted] [redacted] [redacted]\nown\n" {
		t.Errorf("it is shown: %v", got["stdout"])
	}
}

// A list of commands fits into a reply, whatever their number and length.
func TestExecListIsBounded(t *testing.T) {
	b := newBench(t, setup.Options{Toolsets: []string{setup.All}})
	a := b.connect(t)
	sb := a.Launch(nil)
	for range tools.MaxListed + 3 {
		a.Call("exec", args{"sandbox": sb, "command": ": " + strings.Repeat("x", 5000)})
	}
	result := a.result("exec_list", args{"sandbox": sb})
	got, _ := result.StructuredContent.(map[string]any)
	checkOutput(t, "exec_list", got)
	list, _ := got["execs"].([]any)
	if newest, _ := list[len(list)-1].(map[string]any); len(list) != tools.MaxListed || got["older"] != 3.0 ||
		newest["exec_id"] != fmt.Sprint(tools.MaxListed+3) {
		t.Errorf("%d commands, after %v, up to %v", len(list), got["older"], newest["exec_id"])
	}
	if encoded, err := json.Marshal(got); err != nil || len(encoded) > 2*tools.MaxListed*tools.MaxArgument ||
		!strings.HasPrefix(textOf(result), "3 older") {
		t.Errorf("%d bytes, %v", len(encoded), err)
	}
}

// Unread input blocks no call: neither the call that sends it, nor a later one, nor the end.
func TestUnreadInput(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	big := strings.Repeat("x", 1<<20)
	if got := a.Call("exec", args{
		"sandbox": sb, "command": "true", "stdin": big, "wait_seconds": 10,
	}); got["exit_code"] != 0.0 {
		t.Errorf("a command that ends: %v", got)
	}
	open := func(command string) map[string]any {
		return a.Call(
			"exec", args{"sandbox": sb, "command": command, "stdin": big, "keep_stdin_open": true, "wait_seconds": 0},
		)
	}
	got := open("sleep 600")
	if got["running"] != true {
		t.Fatalf("got %v", got)
	}
	id := got["exec_id"]
	for range 3 {
		a.Call("exec_wait", args{"sandbox": sb, "exec_id": id, "wait_seconds": 0, "stdin": big})
	}
	if got = a.Call("exec_kill", args{"sandbox": sb, "exec_id": id}); got["exit_code"] != 143.0 {
		t.Errorf("killed: %v", got)
	}
	// A command that reads late gets all of its input.
	got = open("sleep 1; wc -c")
	got = a.Call(
		"exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"], "stdin": big, "close_stdin": true, "wait_seconds": 15},
	)
	if text, _ := got["stdout"].(string); strings.TrimSpace(text) != "2097152" {
		t.Errorf("late: %v", got)
	}
	a.fails(core.KindConflict, "exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"], "close_stdin": true})
}

// Code in a language runs in the image for that language. This provider supports only another image.
func TestRunCodeImages(t *testing.T) {
	a := newBench(t, setup.Options{Images: map[string]string{"bash": "registry.example.com/bash:1"}}).connect(t)
	a.fails(core.KindUnsupported, "run_code", args{"language": "bash", "code": "true"})
	a.Call("run_code", args{"language": "python", "code": "1"})
}

func TestRunCode(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	a.fails(core.KindUsage, "run_code", args{"language": "cobol", "code": "x"})
	a.fails(core.KindUsage, "run_code", args{"language": "bash", "code": strings.Repeat("x", tools.MaxCode+1)})
	got := a.Call("run_code", args{"language": "bash", "code": "echo hi"})
	checkOutput(t, "run_code", got)
	if listing, err := b.service.Sandboxes.List(t.Context(), core.ListFilter{All: true}); err != nil ||
		len(listing.Sandboxes) != 0 {
		t.Errorf("the sandbox of a single run still exists: %v, %v", listing, err)
	}
}

// A result of run_code never links to a removed sandbox.
func TestRunCodeLeavesNothing(t *testing.T) {
	b := newBench(t, setup.Options{})
	for _, code := range []string{"i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", `printf 'a\000b' >&2`} {
		c := b.host.Call(t.Context(), mcp.CallToolRequest{})
		out, err := c.Code(
			t.Context(), "",
			tools.Execution{Spec: core.ExecSpec{Command: []string{"/bin/sh", "-c", code}}, Wait: patience, Budget: 1000},
			core.Spec{},
		)
		if err != nil {
			t.Fatal(err)
		}
		result, err := tools.ResultOf(out)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(result)
		if err != nil || strings.Contains(string(encoded), uriScheme) ||
			!strings.Contains(textOf(result), "complete: gone with its sandbox") ||
			!strings.Contains(textOf(result), "which is gone.") {
			t.Errorf("%s: %v, %s", code, err, encoded)
		}
	}
}

// A time that overflows nanoseconds is a long time, not an expired one.
func TestLongTimes(t *testing.T) {
	a := newBench(t, setup.Options{Toolsets: []string{setup.All}}).connect(t)
	sb := a.Launch(nil)
	const wraps = 18446744074 // its nanoseconds are 0.29 s in 64 bits
	if got := a.Call(
		"exec", args{"sandbox": sb, "command": "sleep 0.5; echo done", "timeout_seconds": wraps},
	); got["stdout"] != "done\n" {
		t.Errorf("exec: %v", got)
	}
	a.fails(core.KindUsage, "sandbox_launch", args{"timeout_seconds": wraps})
	a.fails(core.KindUsage, "sandbox_timeout", args{"sandbox": sb, "timeout_seconds": wraps})
	a.Call("sandbox_cost", args{"hours": wraps})
}

// A hint for a model names tools, not commands of sb.
func TestErrorsForAModel(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	for _, text := range []string{
		a.fails(core.KindUsage, "exec", args{"sandbox": "", "command": "true"}),
		a.fails(core.KindNotFound, "exec", args{"sandbox": "absent", "command": "true"}),
		a.fails(core.KindNotFound, "exec_wait", args{"sandbox": sb, "exec_id": "99"}),
		a.fails(core.KindNotFound, "exec_kill", args{"sandbox": sb, "exec_id": "99"}),
	} {
		if !strings.Contains(text, "hint: ") || strings.Contains(text, "sb ls") || strings.Contains(text, "sb ps") {
			t.Error(text)
		}
	}
}
