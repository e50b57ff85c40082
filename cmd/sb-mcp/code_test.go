//go:build linux

package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// picture is a program whose value is a picture of one pixel.
const picture = `import base64
class Picture:
    def _repr_png_(self):
        return base64.b64decode("` + pixel + `")
Picture()`

// pixel is a PNG picture.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// Code in a session keeps its variables, also for the next server. A value, a picture and an error come back.
func TestCodeInASession(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, server := h.stdio("--soft-deadline", "2s")
	sb := a.launch(nil)
	in := func(code string) args {
		return args{"sandbox": sb, "language": "python", "session": "work", "code": code}
	}
	if got := a.toEnd("run_code", in("x = 41")); got["exit_code"] != 0.0 {
		t.Fatalf("got %v", got)
	}
	if got := a.toEnd("run_code", in("x + 1")); got["stdout"] != "42\n" {
		t.Errorf("the value: %v", got)
	}
	got := a.toEnd("run_code", in("print('before')\nx / 0"))
	if stderr, _ := got["stderr"].(string); got["exit_code"] != 1.0 || got["stdout"] != "before\n" ||
		!strings.Contains(stderr, "ZeroDivisionError") {
		t.Errorf("an error: %v", got)
	}

	// Code that outlasts the call is read on, by another server, too.
	slow := "import time\nfor i in range(4):\n    print('tick', i)\n    time.sleep(1)\ni"
	got = a.call("run_code", in(slow))
	if got["running"] != true {
		t.Fatalf("it has ended: %v", got)
	}
	exec := got["exec_id"]
	got = a.toEnd("exec_wait", args{"sandbox": sb, "exec_id": exec})
	const ticks = "tick 0\ntick 1\ntick 2\ntick 3\n3\n"
	if got["stdout"] != ticks || got["exit_code"] != 0.0 {
		t.Errorf("read on: %v", got)
	}
	_ = server.in.Close()
	_ = server.wait()
	b, _ := h.stdio()
	if got := b.call("exec_wait", args{"sandbox": sb, "exec_id": exec}); got["stdout"] != ticks {
		t.Errorf("read by the next server: %v", got)
	}
	if got := b.call("run_code", in("x")); got["stdout"] != "41\n" {
		t.Errorf("the variable after a restart of the server: %v", got)
	}
	result, err := b.try(t.Context(), "run_code", in(picture))
	if err != nil || result.IsError || !hasPicture(result) {
		t.Errorf("a picture: %+v, %v", result, err)
	}

	// A session that is gone is an error until another is requested.
	for _, code := range []string{"import os; os._exit(1)", "x"} {
		result, err := b.try(t.Context(), "run_code", in(code))
		if err != nil || !result.IsError || !strings.Contains(textOf(result), "restart: true") {
			t.Errorf("%s: %+v, %v", code, result, err)
		}
	}
	again := in("'x' in globals()")
	again["restart"] = true
	if got := b.call("run_code", again); got["stdout"] != "False\n" {
		t.Errorf("the new session: %v", got)
	}
}

// toEnd calls a tool, and waits for the command's end.
func (a *assistant) toEnd(tool string, arguments args) map[string]any {
	a.t.Helper()
	got := a.call(tool, arguments)
	for begin := time.Now(); got["running"] == true && time.Since(begin) < 2*patience; {
		got = a.call("exec_wait", args{"sandbox": got["sandbox"], "exec_id": got["exec_id"]})
	}
	return got
}

func hasPicture(result *sdk.CallToolResult) bool {
	for _, content := range result.Content {
		if image, ok := content.(*sdk.ImageContent); ok {
			return base64.StdEncoding.EncodeToString(image.Data) == pixel && image.MIMEType == "image/png"
		}
	}
	return false
}
