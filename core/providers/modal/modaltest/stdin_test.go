//go:build linux

package modaltest_test

import (
	"io"
	"testing"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A sandbox of the first generation reads each write of its client once and in order.
func TestStdinOfTheFirstGeneration(t *testing.T) {
	r := newRig(t, nil)
	sb, err := r.client.Sandboxes.Create(
		t.Context(), r.app, r.image, &sdk.SandboxCreateParams{GPU: "T4", Command: []string{"cat"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Detach() })
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(sb.Stdin, text); err != nil {
			t.Fatal(err)
		}
	}
	write := func(index uint32) error {
		_, err := r.server.SandboxStdinWrite(
			t.Context(), pb.SandboxStdinWriteRequest_builder{SandboxId: sb.SandboxID, Input: []byte("x"), Index: index}.Build(),
		)
		return err
	}
	if err := write(2); err != nil {
		t.Errorf("a write that is sent again: %v", err)
	}
	if err := write(7); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a write too many: %v", err)
	}
	if err := sb.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(sb.Stdout); err != nil || string(out) != "one\ntwo\n" {
		t.Errorf("it read %q, %v", out, err)
	}
}
