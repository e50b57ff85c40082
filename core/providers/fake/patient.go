package fake

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// patientReader reads from a pipe until ctx ends.
type patientReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader takes no context
	file *os.File
}

// patient returns a reader whose reads end with ctx where possible. nil becomes an empty input.
func patient(ctx context.Context, r io.Reader) io.Reader {
	switch r := r.(type) {
	case nil:
		return strings.NewReader("")
	case *os.File:
		return &patientReader{ctx, r}
	case *patientReader:
		return &patientReader{ctx, r.file}
	}
	return r
}

func (p *patientReader) Read(buffer []byte) (int, error) {
	var ended sync.WaitGroup
	ended.Add(1)
	stop := context.AfterFunc(p.ctx, func() {
		defer ended.Done()
		_ = p.file.SetReadDeadline(time.Unix(1, 0))
	})
	n, err := p.file.Read(buffer)
	if !stop() {
		// The next program continues to read from the same pipe.
		ended.Wait()
		_ = p.file.SetReadDeadline(time.Time{})
	}
	return n, err
}
