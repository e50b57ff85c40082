package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/transport"
)

// A client may send all its requests and close its side: every request is answered.
func TestAnswersAfterTheLastMessage(t *testing.T) {
	b := newBench(t, setup.Options{})
	var out bytes.Buffer
	in := initialize + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"bash","code":"true"}}}` + "\n" +
		"{broken\n" + `{"jsonrpc":"2.0","id":3,"method":"ping"}` + "\n"
	if err := b.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{`"id":1,"result"`, `"id":2,"result"`, `"id":3,"result"`, `-32700`} {
		if !strings.Contains(out.String(), answer) {
			t.Errorf("%s is missing: %s", answer, out.String())
		}
	}
}

// An answer has its request's id, a number or a text. The error code distinguishes the client's faults from the
// server's.
func TestAnswersMatchRequests(t *testing.T) {
	b := newBench(t, setup.Options{})
	for _, test := range []struct{ request, answer string }{
		{`"id":9007199254740993,"method":"ping"`, `"id":9007199254740993,"result"`},
		{`"id":-1763805600123456789,"method":"nope"`, `"id":-1763805600123456789,"error":{"code":-32601`},
		{`"id":"é\u0000","method":"ping"`, `"id":"é\u0000","result"`},
		{`"id":1,"method":"resources/read","params":{"uri":"sandbox://nobody"}`, `"error":{"code":-32002`},
		{`"id":1,"method":"resources/read","params":{"uri":"sandbox://?offset=x"}`, `"error":{"code":-32002`},
		{`"id":1,"method":"prompts/get","params":{"name":"train_on_gpu"}`, `"error":{"code":-32602`},
		{`"id":1,"method":7`, `"id":1,"error":{"code":-32700`},
	} {
		var out bytes.Buffer
		if err := b.ServeStdio(t.Context(), strings.NewReader(`{"jsonrpc":"2.0",`+test.request+"}\n"), &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), test.answer) {
			t.Errorf("%s: %s", test.request, out.String())
		}
	}
}

// A cancellation directly after its request ends the request.
func TestCanceledBeforeStart(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	sb := a.Launch(nil)
	var in strings.Builder
	for id := range 20 {
		fmt.Fprintf(
			&in,
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":%q,"command":"sleep 600"}}}`+"\n",
			id, sb,
		)
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
	}
	toServer, fromClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- b.ServeStdio(t.Context(), toServer, io.Discard) }()
	if _, err := io.WriteString(fromClient, in.String()); err != nil {
		t.Fatal(err)
	}
	if err := fromClient.Close(); err != nil {
		t.Fatal(err)
	}
	if err := providertest.Receive(t, served); err != nil {
		t.Error(err)
	}
	eventually(t, "no command runs", func() bool { return !b.runs(t, sb) })
}

// A client that reads nothing does not block the server's end, whether the client closes its side or the server is
// stopped.
func TestClientReadsNothing(t *testing.T) {
	for _, closes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, setup.Options{})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			toServer, fromClient := io.Pipe()
			fromServer, toClient := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- b.ServeStdio(ctx, toServer, toClient) }()
			for id := range 30 {
				_, _ = fmt.Fprintf(fromClient, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", id)
			}
			synctest.Wait()
			if closes {
				_ = fromClient.Close()
			} else {
				end()
			}
			select {
			case err := <-served:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(3 * transport.DrainTime):
				t.Errorf("the server is still there; the client has closed its side: %v", closes)
			}
			_ = fromServer.Close()
			_ = fromClient.Close()
		})
	}
}
