package modaltest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
)

// PlannedFault makes the next calls of one RPC fail.
type PlannedFault struct {
	Method string
	Faults []Fault
}

// ParseFault reads METHOD=CODE[,times=N][,retry-after=DURATION]; CODE is a gRPC status: UNAVAILABLE. Its errors are
// core.KindUsage.
func ParseFault(text string) (PlannedFault, error) {
	wrong := func(why string) (PlannedFault, error) {
		return PlannedFault{}, core.Errorf(core.KindUsage, "modal.serve", text, "the fault cannot be read: %s", why).
			WithHint("SandboxCreateV2=RESOURCE_EXHAUSTED,times=2,retry-after=1s")
	}
	method, rest, _ := strings.Cut(text, "=")
	words := strings.Split(rest, ",")
	fault, times := Fault{Message: "an injected fault"}, 1
	if err := fault.Code.UnmarshalJSON([]byte(strconv.Quote(words[0]))); err != nil || method == "" ||
		fault.Code == codes.OK {
		return wrong("it needs an RPC and a status")
	}
	for _, word := range words[1:] {
		var err error
		switch key, value, _ := strings.Cut(word, "="); key {
		case "times":
			times, err = strconv.Atoi(value)
		case "retry-after":
			fault.RetryAfter, err = time.ParseDuration(value)
		default:
			return wrong("it has no " + key)
		}
		if err != nil || times < 1 || times > 1_000_000 || fault.RetryAfter < 0 {
			return wrong(word)
		}
	}
	return PlannedFault{Method: method, Faults: slices.Repeat([]Fault{fault}, times)}, nil
}
