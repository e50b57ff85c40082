package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// grepLine is the number of bytes of a line that are searched and shown.
const grepLine = 1 << 16

// grep returns the lines that a pattern matches, with their numbers. The window's limit bounds the text.
func grep(stream io.Reader, w window) (string, error) {
	pattern, err := regexp.Compile(w.grep)
	if err != nil {
		return "", core.Errorf(core.KindUsage, "resource", "", "%q is not a pattern: %w", w.grep, err)
	}
	var b strings.Builder
	lines := bufio.NewReaderSize(stream, grepLine)
	matches := 0
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			if line = bytes.TrimRight(line, "\r\n"); pattern.Match(line) {
				matches++
				if matches <= grepMatches && int64(b.Len()+len(line)) <= w.limit {
					fmt.Fprintf(&b, "%d:%s\n", number, strings.ToValidUTF8(string(line), "�"))
				}
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = lines.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&b, "[%d lines match]", matches)
	return b.String(), nil
}
