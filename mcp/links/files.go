package links

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/problem"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// Files serves links.
type Files struct {
	Links *Links
	// Service returns the service for a caller; client names the caller in the audit log.
	Service func(identity auth.Identity, client string) *service.Service
	// Changed reports that a file of a sandbox was written.
	Changed func(sb core.Sandbox, path string)
}

// Find returns the grant in the token of a request's path.
func (f Files) Find(r *http.Request) (Grant, error) {
	return f.Links.Check(r.PathValue("token"), time.Now())
}

// Serve performs the request that a link allows.
func (f Files) Serve(response http.ResponseWriter, r *http.Request, g Grant) {
	svc := f.Service(auth.Identity{Owner: g.Owner, Isolated: g.Isolated}, "link")
	switch {
	case r.Method == http.MethodPut && g.Write:
		f.upload(response, r, svc, g)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !g.Write:
		f.download(response, r, svc, g)
	default:
		http.Error(response, "this link does not allow it", http.StatusMethodNotAllowed)
	}
}

func fileError(response http.ResponseWriter, err error) {
	kind := core.KindOf(err)
	status := problem.Status(kind)
	if kind == core.KindExhausted { // of a disk, and not of a rate
		status = http.StatusInsufficientStorage
	}
	http.Error(response, err.Error(), status)
}

// harmless reports whether a browser shows the type without running code.
func harmless(mimeType string) bool {
	return slices.Contains(
		[]string{
			"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "text/csv", "application/json",
			"application/pdf",
		},
		mimeType,
	)
}

func (f Files) download(response http.ResponseWriter, r *http.Request, svc *service.Service, g Grant) {
	file := File{Sandbox: g.Sandbox, Path: g.Path, Inline: true}
	if err := Download(response, r, svc, file); err != nil {
		fileError(response, err)
	}
}

func (f Files) upload(response http.ResponseWriter, r *http.Request, svc *service.Service, g Grant) {
	file := File{Sandbox: g.Sandbox, Path: g.Path}
	if err := Upload(response, r, svc, file, core.WriteOptions{Parents: true}); err != nil {
		fileError(response, err)
		return
	}
	if sb, err := svc.Sandboxes.Resolve(r.Context(), g.Sandbox); err == nil {
		f.Changed(sb, g.Path)
	}
	response.WriteHeader(http.StatusNoContent)
}

// File is a file of a sandbox.
type File struct {
	Sandbox string // provider/id
	Path    string // absolute
	// Inline lets a browser show types that run no code. It stores others.
	Inline bool
}

// ETag returns the entity tag of a regular file's content. It changes with the size or the time of the last change.
func ETag(info core.FileInfo) string {
	return fmt.Sprintf("\"%x-%x\"", info.ModTime.UnixNano(), info.Size)
}

// Download sends the content of a file. Regular files of a known size have an entity tag, and parts of them can be
// requested. With an error it has written nothing. A failure after that breaks the connection.
func Download(response http.ResponseWriter, r *http.Request, svc *service.Service, f File) error {
	info, err := svc.Files.Stat(r.Context(), f.Sandbox, f.Path)
	if err != nil {
		return err
	}
	file := &sandboxFile{ctx: r.Context(), service: svc, ref: f.Sandbox, path: f.Path, size: info.Size}
	defer file.Close()
	beginning := make([]byte, reply.SniffSize)
	n, err := io.ReadFull(file, beginning)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	beginning = beginning[:n]
	f.describe(response.Header(), beginning)
	if info.Mode.IsRegular() && info.Size > 0 {
		_, _ = file.Seek(0, io.SeekStart) // an offset of 0 is valid
		response.Header().Set("ETag", ETag(info))
		http.ServeContent(response, r, "", info.ModTime, file)
		return nil
	}
	// The size of a link is that of its target's name, and files of /proc have none.
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(response, io.MultiReader(bytes.NewReader(beginning), file)); err != nil {
		panic(http.ErrAbortHandler) // the client must not take it for the whole
	}
	return nil
}

// describe sets the headers of the content's type.
func (f File) describe(header http.Header, beginning []byte) {
	mimeType := reply.MimeOf(f.Path, beginning)
	disposition := "attachment"
	if f.Inline && harmless(mimeType) {
		disposition = "inline"
	}
	if strings.HasPrefix(mimeType, "text/") {
		mimeType += "; charset=utf-8"
	}
	header.Set("Content-Type", mimeType)
	header.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": path.Base(f.Path)}))
}

// Upload writes the body of a request, of at most 4 GiB, to a file. It writes no response.
func Upload(
	response http.ResponseWriter, r *http.Request, svc *service.Service, f File, opts core.WriteOptions,
) error {
	control := http.NewResponseController(response)
	body := &patientReader{r: http.MaxBytesReader(response, r.Body, maxUpload), control: control}
	err := svc.Files.WriteFile(r.Context(), f.Sandbox, f.Path, body, opts)
	_ = control.SetReadDeadline(time.Time{})
	return err
}

const (
	// maxUpload bounds one uploaded file.
	maxUpload = 4 << 30
	// readTimeout bounds one read from a client.
	readTimeout = 30 * time.Second
)

// patientReader sets a new deadline for each read from a client.
type patientReader struct {
	r       io.Reader
	control *http.ResponseController
}

func (p *patientReader) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(readTimeout))
	return p.r.Read(b)
}

// sandboxFile reads a file of a sandbox at any offset. Providers read only from the beginning, so it discards the bytes
// before the offset.
type sandboxFile struct {
	ctx     context.Context //nolint:containedctx // lives for one request
	service *service.Service
	ref     string
	path    string
	size    int64

	offset  int64
	content io.ReadCloser
	at      int64 // the offset of content
}

func (f *sandboxFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, core.Errorf(core.KindUsage, "read", "", "the offset is negative")
	}
	f.offset = offset
	return offset, nil
}

func (f *sandboxFile) Read(p []byte) (int, error) {
	if f.content != nil && f.at > f.offset {
		f.Close()
	}
	if f.content == nil {
		content, err := f.service.Files.ReadFile(f.ctx, f.ref, f.path)
		if err != nil {
			return 0, err
		}
		f.content, f.at = content, 0
	}
	if skip := f.offset - f.at; skip > 0 {
		n, err := io.CopyN(io.Discard, f.content, skip)
		f.at += n
		if err != nil {
			return 0, err
		}
	}
	n, err := f.content.Read(p)
	f.at += int64(n)
	f.offset = f.at
	return n, err
}

func (f *sandboxFile) Close() {
	if f.content != nil {
		_ = f.content.Close()
		f.content = nil
	}
}
