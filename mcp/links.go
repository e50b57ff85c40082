package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// links makes and checks links to files in sandboxes: whoever has one may read or write that one file until it
// expires. They are signed with a secret of this process, so they end with it.
type links struct {
	base   string
	secret []byte
}

// grant is what a link allows.
type grant struct {
	Sandbox string `json:"s"` // provider/id
	Path    string `json:"p"`
	Write   bool   `json:"w,omitempty"`
	Owner   string `json:"o"`
	// Isolated and Key are the caller's; a revoked key takes its links with it.
	Isolated bool   `json:"i,omitempty"`
	Key      string `json:"k,omitempty"`
	Expires  int64  `json:"e"` // Unix seconds
}

const (
	linkTime    = 15 * time.Minute
	maxLinkTime = 24 * time.Hour
)

func (l *links) sign(payload []byte) []byte {
	mac := hmac.New(sha256.New, l.secret)
	mac.Write(payload)
	return mac.Sum(nil)
}

func (l *links) make(g grant) (string, error) {
	payload, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return l.base + "/files/" + encode(payload) + "." + encode(l.sign(payload)), nil
}

// check reads a token. Whatever is wrong with it, the answer is the same.
func (l *links) check(token string, now time.Time) (grant, error) {
	refused := core.Errorf(core.KindNotFound, "link", "", "this link is not valid, or not any more")
	encoded, signature, _ := strings.Cut(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return grant{}, refused
	}
	mac, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(mac, l.sign(payload)) {
		return grant{}, refused
	}
	var g grant
	if err := json.Unmarshal(payload, &g); err != nil || now.Unix() >= g.Expires {
		return grant{}, refused
	}
	return g, nil
}

type linkIn struct {
	Sandbox   string `json:"sandbox" jsonschema:"id or name"`
	Path      string `json:"path"`
	Direction string `json:"direction,omitempty" jsonschema:"download answers GET with the file, upload replaces the file by the body of a PUT" enum:"download|upload" default:"download"`
	Seconds   int    `json:"expires_seconds,omitempty" jsonschema:"how long the link is valid"`
}

type linkOut struct {
	URL     string    `json:"url"`
	Method  string    `json:"method" jsonschema:"GET or PUT"`
	Expires time.Time `json:"expires"`
}

func (o linkOut) text() string {
	return o.Method + " " + o.URL + " (until " + o.Expires.UTC().Format(time.RFC3339) + ")"
}

func linkTools() []Tool {
	return []Tool{define(Tool{
		Name: "file_link", Title: "Link to a file", Toolset: setup.Links, Extra: true, OpenWorld: true,
		Description: "Make a link by which anybody who has it can download one file of a sandbox, or upload it, for a while. Only a server over HTTP has links.",
	}, makeLink)}
}

func makeLink(ctx context.Context, c *call, in linkIn) (linkOut, error) {
	sb, err := c.resolve(ctx, in.Sandbox)
	if err != nil {
		return linkOut{}, err
	}
	lasting := linkTime
	if in.Seconds > 0 {
		lasting = min(seconds(in.Seconds), maxLinkTime)
	}
	return c.link(sb, in.Path, in.Direction == "upload", lasting)
}

func (c *call) link(sb core.Sandbox, name string, upload bool, lasting time.Duration) (linkOut, error) {
	all := c.server.links.Load()
	if all == nil {
		return linkOut{}, core.Errorf(core.KindUnsupported, "link", "", "this server has no links: it does not serve HTTP").WithHint("use file_read, push or pull")
	}
	expires := time.Now().Add(lasting)
	url, err := all.make(grant{
		Sandbox: sb.Ref(), Path: absolute(sb, name), Write: upload,
		Owner: c.who.Owner, Isolated: c.who.Isolated, Key: c.who.Key, Expires: expires.Unix(),
	})
	out := linkOut{URL: url, Method: http.MethodGet, Expires: expires}
	if upload {
		out.Method = http.MethodPut
	}
	return out, err
}

// file answers a link.
func (w *Web) file(response http.ResponseWriter, r *http.Request) {
	g, err := w.server.links.Load().check(r.PathValue("token"), time.Now())
	if err == nil && g.Key != "" && w.auth.keys != nil && !strings.HasPrefix(g.Key, "jwt-") {
		_, err = w.auth.keys.Find(g.Key)
	}
	if err != nil {
		say(response, http.StatusNotFound, "this link is not valid, or not any more")
		return
	}
	if !w.limits.allow(Identity{Key: g.Key}, r) {
		say(response, http.StatusTooManyRequests, "too many requests")
		return
	}
	svc := w.server.serviceFor(Identity{Owner: g.Owner, Isolated: g.Isolated}, "link")
	switch {
	case r.Method == http.MethodPut && g.Write:
		w.upload(response, r, svc, g)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !g.Write:
		w.download(response, r, svc, g)
	default:
		say(response, http.StatusMethodNotAllowed, "this link is not for that")
	}
}

func fileError(response http.ResponseWriter, err error) {
	status := map[core.Kind]int{
		core.KindNotFound: http.StatusNotFound, core.KindConflict: http.StatusConflict, core.KindUnauthorized: http.StatusForbidden,
		core.KindExhausted: http.StatusInsufficientStorage, core.KindUsage: http.StatusBadRequest,
	}[core.KindOf(err)]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	say(response, status, err.Error())
}

// harmless are the types that a browser shows without running anything.
func harmless(mimeType string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "text/csv", "application/json", "application/pdf"}, mimeType)
}

func (w *Web) download(response http.ResponseWriter, r *http.Request, svc *service.Service, g grant) {
	info, err := svc.Stat(r.Context(), g.Sandbox, g.Path)
	if err != nil {
		fileError(response, err)
		return
	}
	file := &sandboxFile{ctx: r.Context(), service: svc, ref: g.Sandbox, path: g.Path, size: info.Size}
	defer file.close()
	beginning := make([]byte, sniffSize)
	n, err := io.ReadFull(file, beginning)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		fileError(response, err)
		return
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		fileError(response, err)
		return
	}
	mimeType := mimeOf(g.Path, beginning[:n])
	disposition := "attachment"
	if harmless(mimeType) {
		disposition = "inline"
	}
	if strings.HasPrefix(mimeType, "text/") {
		mimeType += "; charset=utf-8"
	}
	header := response.Header()
	header.Set("Content-Type", mimeType)
	header.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": path.Base(g.Path)}))
	http.ServeContent(response, r, "", info.ModTime, file)
}

func (w *Web) upload(response http.ResponseWriter, r *http.Request, svc *service.Service, g grant) {
	control := http.NewResponseController(response)
	body := &patientReader{r: http.MaxBytesReader(response, r.Body, maxUpload), control: control}
	err := svc.WriteFile(r.Context(), g.Sandbox, g.Path, body, core.WriteOptions{Parents: true})
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		fileError(response, err)
		return
	}
	if sb, err := svc.Resolve(r.Context(), g.Sandbox); err == nil {
		w.server.fileChanged(sb, g.Path)
	}
	response.WriteHeader(http.StatusNoContent)
}

// maxUpload bounds one uploaded file.
const maxUpload = 4 << 30

// patientReader gives each read from a client its own time.
type patientReader struct {
	r       io.Reader
	control *http.ResponseController
}

func (p *patientReader) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(writeTimeout))
	return p.r.Read(b)
}

// sandboxFile reads a file of a sandbox from any place: providers only read from the beginning, so
// what is before the place is read and dropped.
type sandboxFile struct {
	ctx     context.Context //nolint:containedctx // lives for one request
	service *service.Service
	ref     string
	path    string
	size    int64

	offset  int64
	content io.ReadCloser
	at      int64 // where content stands
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
		f.close()
	}
	if f.content == nil {
		content, err := f.service.ReadFile(f.ctx, f.ref, f.path)
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

func (f *sandboxFile) close() {
	if f.content != nil {
		_ = f.content.Close()
		f.content = nil
	}
}
