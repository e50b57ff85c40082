package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// resumes bounds how often one attempt of a download continues after a broken connection.
const resumes = 100

// partial is the beginning of a blob from a broken download.
type partial struct {
	file *os.File
	have int64
	// same means that the rest shall come from the source of the beginning.
	same bool
	// continued means that the source sends the rest only.
	continued bool
}

type partialKey struct{}

// partialOf returns the beginning of a blob that a request continues, or nil.
func partialOf(ctx context.Context) *partial {
	p, _ := ctx.Value(partialKey{}).(*partial)
	return p
}

// ask returns the request for the rest of the blob. Requests for tokens stay as they are.
func (p *partial) ask(request *http.Request) *http.Request {
	redirected := request.Response != nil
	if p == nil || request.Method != http.MethodGet || !redirected && !strings.Contains(request.URL.Path, "/blobs/") {
		return request
	}
	request = request.Clone(request.Context())
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
	return request
}

// refused reports whether a registry that was asked for the rest of the blob sends another part or none.
func (p *partial) refused(asked *http.Request, answer *http.Response) bool {
	if asked.Header.Get("Range") == "" {
		return false
	}
	switch answer.StatusCode {
	case http.StatusRequestedRangeNotSatisfiable:
		return true
	case http.StatusPartialContent:
		return !strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", p.have))
	}
	return false
}

// join makes the answer with the rest one with the whole blob. The client of the registry verifies whole blobs only.
func (p *partial) join(answer *http.Response) {
	if p == nil || answer.StatusCode != http.StatusPartialContent {
		return
	}
	p.continued = true
	answer.StatusCode, answer.Status = http.StatusOK, "200 OK"
	if answer.ContentLength >= 0 {
		answer.ContentLength += p.have
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.NewSectionReader(p.file, 0, p.have), answer.Body), answer.Body}
}

// downloadFrom stores a blob from one source. After a broken connection it continues while it makes progress. A later
// attempt and a later pull continue what it leaves.
func (s *Store) downloadFrom(
	ctx context.Context, from *found, of v1.Descriptor, path string, progress *progress,
) error {
	p := &partial{}
	var err error
	if p.file, err = os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	defer func() { _ = p.file.Close() }()
	if info, err := p.file.Stat(); err == nil && info.Size() < of.Size {
		p.have = info.Size()
	}
	for range resumes {
		var n int64
		if n, err = from.downloadOnce(ctx, of, p, progress); err == nil {
			return os.Rename(p.file.Name(), path)
		}
		useless := n > 0 && n <= p.have && !p.continued // the source sends the same beginning again
		if n >= of.Size || useless {
			return errors.Join(err, os.Remove(p.file.Name()))
		}
		if n <= p.have || ctx.Err() != nil || !repeatable(err) {
			return err
		}
		p.have, p.same = n, true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.delay):
		}
	}
	return err
}
