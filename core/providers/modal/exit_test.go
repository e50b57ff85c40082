package modal

import (
	"testing"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// A kill, the command's own code 137 and an end without a code have different results. None of them is success.
func TestExitOf(t *testing.T) {
	code := func(n int32) *pb.TaskExecWaitResponse { return pb.TaskExecWaitResponse_builder{Code: &n}.Build() }
	signal := func(n int32) *pb.TaskExecWaitResponse { return pb.TaskExecWaitResponse_builder{Signal: &n}.Build() }
	const unknown = "Modal ended the command without an exit code"
	for name, test := range map[string]struct {
		reply   *pb.TaskExecWaitResponse
		timeout time.Duration
		want    core.Exit
	}{
		"success":              {code(0), 0, core.Exit{}},
		"a code":               {code(7), 0, core.Exit{Code: 7}},
		"its own 137":          {code(137), 0, core.Exit{Code: 137}},
		"killed":               {signal(9), 0, core.Exit{Code: 137, Signal: 9}},
		"terminated":           {signal(15), 0, core.Exit{Code: 143, Signal: 15}},
		"killed by its limit":  {signal(9), time.Second, core.Exit{Code: 137, Signal: 9, TimedOut: true}},
		"no code":              {code(-1), 0, core.Exit{Code: 137, Message: unknown}},
		"no code at its limit": {code(-1), time.Second, core.Exit{Code: 137, TimedOut: true, Message: unknown}},
	} {
		c := &process{timeout: test.timeout, started: time.Now().Add(-time.Minute)}
		if got := c.exitOf(test.reply); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
