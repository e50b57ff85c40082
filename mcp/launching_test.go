package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// launchSlowly starts a launch that outlasts the soft deadline, and returns the sandbox's name.
func launchSlowly(t *testing.T, b *bench, a *assistant, fault fake.Fault) string {
	t.Helper()
	b.provider.Inject(fake.OpLaunch, fault)
	got := a.Call("sandbox_launch", args{"name": "slow"})
	checkOutput(t, "sandbox_launch", got)
	note, _ := got["note"].(string)
	name, _ := got["name"].(string)
	if got["state"] != "creating" || name != "mcp-slow" || !strings.Contains(note, "sandbox_list with sandbox "+name) {
		t.Fatalf("the launch is %v", got)
	}
	return name
}

// A launch that outlasts the soft deadline continues. The sandbox is listed meanwhile, and works after it.
func TestLaunchOutlivesItsCall(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 10 * time.Millisecond})
	a := b.connect(t)
	gate := make(chan struct{})
	name := launchSlowly(t, b, a, fake.Fault{Until: gate})
	if text := a.fails(core.KindTimeout, "exec", args{"sandbox": name, "command": "true"}); !strings.Contains(
		text, "still launching",
	) {
		t.Errorf("a command before the sandbox runs: %s", text)
	}
	list, _ := a.Call("sandbox_list", args{})["sandboxes"].([]any)
	if one, _ := list[0].(map[string]any); len(list) != 1 || one["name"] != name || one["state"] != "creating" {
		t.Errorf("listed meanwhile: %v", list)
	}
	close(gate)
	for deadline := time.Now().Add(patience); ; {
		list, _ := a.Call("sandbox_list", args{})["sandboxes"].([]any)
		one, _ := a.Call("sandbox_list", args{"sandbox": name})["sandboxes"].([]any)
		if len(list) != 1 || len(one) != 1 {
			t.Fatalf("listed: %v, %v", list, one)
		}
		if info, _ := one[0].(map[string]any); info["state"] == "running" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not run: %v", one)
		}
	}
	got := a.Call("exec", args{"sandbox": name, "command": "echo runs", "wait_seconds": 60})
	for got["running"] == true {
		got = a.Call("exec_wait", args{"sandbox": name, "exec_id": got["exec_id"]})
	}
	if got["stdout"] != "runs\n" {
		t.Errorf("its command: %v", got)
	}
}

// The failure of a launch that outlasted its call is the answer to the next call that names the sandbox.
func TestLaunchFailsAfterItsCall(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 10 * time.Millisecond})
	a := b.connect(t)
	gate := make(chan struct{})
	name := launchSlowly(t, b, a, fake.Fault{
		Until: gate, Err: core.Errorf(core.KindExhausted, "launch", "slow", "no room"),
	})
	close(gate)
	var text string
	for deadline := time.Now().Add(patience); !strings.Contains(text, "no room"); {
		result := a.result("sandbox_list", args{"sandbox": name})
		text = textOf(result)
		if time.Now().After(deadline) {
			t.Fatalf("the last answer is %s", text)
		}
	}
	if list, _ := a.Call("sandbox_list", args{})["sandboxes"].([]any); len(list) != 0 {
		t.Errorf("listed: %v", list)
	}
}

// Terminating a sandbox ends its launch.
func TestTerminateDuringLaunch(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 10 * time.Millisecond})
	a := b.connect(t)
	name := launchSlowly(t, b, a, fake.Fault{Until: make(chan struct{})})
	a.Call("sandbox_terminate", args{"sandbox": name})
	a.fails(core.KindNotFound, "exec", args{"sandbox": name, "command": "true"})
	if sandboxes, err := b.provider.List(t.Context()); err != nil || len(sandboxes) != 0 {
		t.Errorf("left: %+v, %v", sandboxes, err)
	}
}

// The end of the server ends its launches.
func TestServerEndsDuringLaunch(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 10 * time.Millisecond})
	launchSlowly(t, b, b.connect(t), fake.Fault{Until: make(chan struct{})})
}
