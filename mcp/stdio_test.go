package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/mcp/setup"
)

func TestReadLine(t *testing.T) {
	long := bytes.Repeat([]byte("x"), maxMessage+10)
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader("  one \r\n\n"), bytes.NewReader(long), strings.NewReader("\ntwo\nrest")), 4096)
	for _, want := range []string{"one", "", tooLong, "two", "rest"} {
		line, err := readLine(r)
		if errors.Is(err, errTooLong) {
			line, err = []byte(tooLong), nil
		}
		if err != nil || string(line) != want {
			t.Fatalf("got %.20q, %v, want %q", line, err, want)
		}
	}
	if _, err := readLine(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// A client may send all it has and close its side: every request is answered.
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
