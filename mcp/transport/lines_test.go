package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadLine(t *testing.T) {
	long := bytes.Repeat([]byte("x"), maxMessage+10)
	r := bufio.NewReaderSize(
		io.MultiReader(strings.NewReader("  one \r\n\n"), bytes.NewReader(long), strings.NewReader("\ntwo\nrest")), 4096,
	)
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
