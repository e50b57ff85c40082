//go:build linux

package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providertest"
)

// echo is a server that copies a client's first descriptor to its second.
type echo struct{}

func (echo) Exec(grpc.BidiStreamingServer[Ask, Answer], *Files) error { return nil }

func (echo) Control(_ context.Context, request *wire.Request, files *Files) *wire.Reply {
	taken, err := files.Take(2)
	if err != nil {
		return &wire.Reply{Error: guest.Fail(err)}
	}
	_, err = io.Copy(taken[1], taken[0])
	for _, f := range taken {
		_ = f.Close()
	}
	return &wire.Reply{Exit: &core.Exit{Code: len(request.File)}, Error: guest.Fail(err)}
}

func serve(t *testing.T, path string) {
	t.Helper()
	serveAs(t, path, echo{})
}

func serveAs(t *testing.T, path string, s Server) {
	t.Helper()
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer()
	Register(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := providertest.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
}

func TestDescriptorsAreHandedOver(t *testing.T) {
	for _, dir := range []string{"short", strings.Repeat("long/", 40)} {
		path := filepath.Join(t.TempDir(), dir, "ctl.sock")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		serve(t, path)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v", info.Mode(), err)
		}
		inR, inW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		outR, outW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inW.WriteString("through"); err != nil {
			t.Fatal(err)
		}
		_ = inW.Close()
		client, err := Dial(path, inR, outW)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.Control(t.Context(), &wire.Request{Verb: wire.VerbFiles, File: []string{"a", "b"}})
		if err != nil || reply.Exit.Code != 2 || reply.Error != nil {
			t.Errorf("%+v, %v", reply, err)
		}
		_ = errors.Join(inR.Close(), outW.Close())
		if text, err := io.ReadAll(outR); err != nil || string(text) != "through" {
			t.Errorf("came out: %q, %v", text, err)
		}
		_ = errors.Join(outR.Close(), client.Close())
	}
}

// mirror answers with the request.
type mirror struct{ echo }

func (mirror) Control(_ context.Context, request *wire.Request, _ *Files) *wire.Reply {
	return &wire.Reply{Secrets: []wire.Secret{{Value: request.File[0]}}}
}

// Several commands with long command lines are in one reply, and environments in one request.
func TestLargeMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl.sock")
	serveAs(t, path, mirror{})
	client, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	const size = 20 << 20
	reply, err := client.Control(t.Context(), &wire.Request{File: []string{strings.Repeat("x", size)}})
	if err != nil || len(reply.Secrets) != 1 || len(reply.Secrets[0].Value) != size {
		t.Errorf("%v", err)
	}
}

func TestDialAbsentSocket(t *testing.T) {
	client, err := Dial(filepath.Join(t.TempDir(), "absent"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Control(t.Context(), &wire.Request{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v; its cause must be kept", err)
	}
}

// A supervisor of an older version, which an earlier sb launched, is named with both versions.
func TestOlderSupervisor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl.sock")
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, helloSize))
		}
		if err == nil {
			_, err = conn.Write([]byte{0, wire.Version - 1})
		}
		served <- err
		if conn != nil {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	client, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_, err = client.Control(t.Context(), &wire.Request{Verb: wire.VerbStats})
	older := fmt.Sprintf("the sandbox's supervisor %d", wire.Version-1)
	if !errors.Is(err, core.KindUnavailable) || !strings.Contains(err.Error(), older) {
		t.Errorf("%v", err)
	}
	if err := providertest.Receive(t, served); err != nil {
		t.Error(err)
	}
}

func TestMalformedInputIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl.sock")
	serve(t, path)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "", "sb\x00\x01\x00\x01\xff\xff", strings.Repeat("x", 1<<16)} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.UnixConn).CloseWrite()
		if answer, _ := io.ReadAll(conn); len(answer) > 2 {
			t.Errorf("%.10q was answered by %q", text, answer)
		}
		_ = conn.Close()
	}
}

func FuzzParseHello(f *testing.F) {
	f.Add(hello(0))
	f.Add(hello(3))
	f.Add([]byte("sb"))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, files, err := parseHello(message)
		if err == nil && (files < 0 || files > maxFiles) {
			t.Errorf("%d descriptors", files)
		}
	})
}

func TestErrorsKeepTheirKind(t *testing.T) {
	err := guest.Fail(core.Errorf(core.KindConflict, "op", "subject", "cause").WithHint("hint")).Err("there")
	if !errors.Is(err, core.KindConflict) || core.HintOf(err) != "hint" || !strings.Contains(err.Error(), "cause") {
		t.Errorf("%v", err)
	}
	if guest.Fail(nil).Err("x") != nil {
		t.Error("no error became one")
	}
}
