package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// readLines reads the lines from in.Line on that fit into a reply, with their numbers. A line that does not fit alone
// is cut.
func (c *Call) readLines(ctx context.Context, sb core.Sandbox, in ReadIn, out *ReadOut, whole io.Reader) error {
	if in.Line < 0 || in.Offset > 0 || in.Base64 {
		return core.Errorf(core.KindUsage, "read", "", "line is a number from 1, without offset and base64")
	}
	clean := c.Host.Secrets.Of(sb.ID).Reader(whole)
	lines := &lineReader{from: bufio.NewReader(clean)}
	for lines.read < in.Line-1 {
		if _, _, err := lines.next(0); errors.Is(err, io.EOF) {
			return core.Errorf(
				core.KindUsage, "read", "", "line %d is after the end of %s, which has %d lines", in.Line, out.Path, lines.read,
			)
		} else if err != nil {
			return err
		}
	}
	budget := c.Budget(in.Budget)
	var text strings.Builder
	for left := budget; ; {
		line, size, err := lines.next(budget * utf8.UTFMax)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		number := fmt.Sprintf("%d\t", lines.read)
		left -= len(number) + utf8.RuneCountInString(line) + 1
		if left < 0 && text.Len() > 0 {
			out.NextLine = lines.read
			break
		}
		if left < 0 || size > int64(len(line)) {
			line = string(reply.TrimEnd(reply.FirstRunes([]byte(line), budget-len(number))))
			line += fmt.Sprintf(" [... the line has %d bytes ...]", size)
		}
		text.WriteString(number + line + "\n")
	}
	if out.Size = lines.bytes; out.NextLine > 0 || clean.Found() {
		var err error
		if out.Size, err = c.sizeOf(ctx, sb, out.Path, lines.bytes, true, lines.from); err != nil {
			return err
		}
	}
	out.Redacted = clean.Found()
	var ok bool
	out.Encoding = "text"
	if out.Content, out.Replaced, ok = reply.Legible([]byte(text.String())); !ok {
		out.Encoding, out.Content, out.Replaced, out.NextLine = "none", "", 0, 0
		out.extra = append(out.extra, fileLink(sb, out.Path, out.MIMEType, out.Size))
	}
	return nil
}

// lineReader reads lines of any length in little memory.
type lineReader struct {
	from *bufio.Reader
	// read counts the lines, bytes their bytes.
	read  int
	bytes int64
}

// next returns the beginning of the next line, of at most limit bytes, and the size of the line. Neither has the line
// end. After the last line it returns io.EOF.
func (r *lineReader) next(limit int) (line string, size int64, err error) {
	var kept strings.Builder
	for {
		part, err := r.from.ReadSlice('\n')
		r.bytes += int64(len(part))
		text := strings.TrimSuffix(string(part), "\n")
		kept.WriteString(text[:min(len(text), limit-kept.Len())])
		size += int64(len(text))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && size > 0:
			r.read++
			return kept.String(), size, nil
		}
		return "", 0, err
	}
}
