package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// The resources. A sandbox is named by its id or name, a file by its absolute path.
const (
	uriScheme    = "sandbox://"
	uriSandboxes = "sandbox://"
	// rangeLimit is the default number of bytes of one read; a URI may request up to rangeMost.
	rangeLimit = 256 << 10
	rangeMost  = 16 << 20
	// grepMatches bounds the matching lines of a search.
	grepMatches = 200
)

// templates lists the resource templates.
func templates() []mcp.ResourceTemplate {
	return []mcp.ResourceTemplate{
		mcp.NewResourceTemplate("sandbox://{id}", "sandbox", mcp.WithTemplateTitle("Sandbox"),
			mcp.WithTemplateMIMEType("application/json"),
			mcp.WithTemplateDescription("State, image, ports and end of one sandbox")),
		mcp.NewResourceTemplate("sandbox://{id}/files/{+path}{?offset,limit,grep}", "file",
			mcp.WithTemplateTitle("File of a sandbox"),
			mcp.WithTemplateDescription("A file, or a directory's list. offset and limit select bytes, grep selects lines")),
		mcp.NewResourceTemplate("sandbox://{id}/logs{?offset,limit,grep}", "logs", mcp.WithTemplateTitle("Log of a sandbox"),
			mcp.WithTemplateMIMEType("text/plain"),
			mcp.WithTemplateDescription("Output of the sandbox's own command")),
		mcp.NewResourceTemplate("sandbox://{id}/exec", "execs", mcp.WithTemplateTitle("Commands of a sandbox"),
			mcp.WithTemplateMIMEType("application/json"),
			mcp.WithTemplateDescription("Every command that was run in it, and how it ended")),
		mcp.NewResourceTemplate("sandbox://{id}/exec/{exec}/{stream}{?offset,limit,grep}", "output",
			mcp.WithTemplateTitle("Output of a command"),
			mcp.WithTemplateDescription("stream is stdout or stderr. offset and limit select bytes, grep selects lines")),
	}
}

func (s *Server) addResources(protocol *server.MCPServer) {
	protocol.AddResource(mcp.NewResource(uriSandboxes, "sandboxes", mcp.WithMIMEType("application/json"),
		mcp.WithResourceDescription("All sandboxes")), s.readResource)
	for _, template := range templates() {
		protocol.AddResourceTemplate(template, s.readResource)
	}
}

// readResource reads any resource. mcp-go only checks that a template matches the URI.
func (s *Server) readResource(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	c := s.host.Call(ctx, mcp.CallToolRequest{})
	contents, err := readURI(ctx, c, request.Params.URI)
	if err != nil {
		if errors.Is(err, core.KindNotFound) {
			return nil, fmt.Errorf("%w: %w", server.ErrResourceNotFound, err)
		}
		if hint := core.HintOf(err); hint != "" {
			return nil, fmt.Errorf("%s: %w (%s)", core.KindOf(err).String(), err, hint)
		}
		return nil, fmt.Errorf("%s: %w", core.KindOf(err).String(), err)
	}
	return contents, nil
}

// encodeURI percent-encodes characters that a URI cannot contain. Models write patterns and paths unencoded, and
// templates match only encoded ones.
func encodeURI(_ context.Context, _ any, request *mcp.ReadResourceRequest) {
	var b strings.Builder
	query := false
	for _, c := range []byte(request.Params.URI) {
		switch {
		case c == '?' && !query:
			query = true
			b.WriteByte(c)
		case query && strings.ContainsRune("!$'()*+,;:@/?#[]", rune(c)):
			fmt.Fprintf(&b, "%%%02X", c)
		case c > ' ' && c < 0x7f && !strings.ContainsRune("\"<>\\^`{|}", rune(c)):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	request.Params.URI = b.String()
}

// listResources adds the caller's sandboxes to the resources that all callers have.
func (s *Server) listResources(
	ctx context.Context, _ any, _ *mcp.ListResourcesRequest, result *mcp.ListResourcesResult,
) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listing, err := s.host.Call(ctx, mcp.CallToolRequest{}).Service.Sandboxes.List(ctx, core.ListFilter{})
	if err != nil || result.NextCursor != "" {
		return
	}
	for _, sb := range listing.Sandboxes {
		result.Resources = append(result.Resources, mcp.NewResource(uriScheme+sb.ID, sb.Name,
			mcp.WithMIMEType("application/json"), mcp.WithResourceDescription(tools.InfoOf(sb).Text())))
	}
}

// location is the target of a resource's URI.
type location struct {
	sandbox string // "" is the list of all
	kind    string // "", "files", "logs" or "exec"
	path    string // of files
	exec    string
	stream  core.Stream
	window  window
}

// window selects a part of a resource.
type window struct {
	offset, limit int64
	grep          string
}

// parseURI reads a resource's URI.
func parseURI(uri string) (location, error) {
	bad := func(why string) (location, error) {
		return location{}, core.Errorf(core.KindNotFound, "resource", "", "%q is not a resource: %s", uri, why).
			WithHint("resources/templates/list lists the resources")
	}
	rest, ok := strings.CutPrefix(uri, uriScheme)
	if !ok {
		return bad("it does not begin with " + uriScheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	var l location
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("its query is invalid")
	}
	l.window.grep = values.Get("grep")
	for _, field := range []struct {
		name  string
		value *int64
	}{{"offset", &l.window.offset}, {"limit", &l.window.limit}} {
		if text := values.Get(field.name); text != "" {
			if *field.value, err = strconv.ParseInt(text, 10, 64); err != nil || *field.value < 0 {
				return bad(field.name + " is not a number")
			}
		}
	}
	if l.window.limit == 0 {
		l.window.limit = rangeLimit
	}
	l.window.limit = min(l.window.limit, rangeMost)
	l.sandbox, rest, _ = strings.Cut(rest, "/")
	if l.sandbox, err = url.PathUnescape(l.sandbox); err != nil {
		return bad("its sandbox cannot be read")
	}
	l.kind, rest, _ = strings.Cut(rest, "/")
	switch l.kind {
	case "", "logs":
	case "files":
		name, err := url.PathUnescape(rest)
		if err != nil {
			return bad("its path cannot be read")
		}
		l.path = path.Clean("/" + name)
	case "exec":
		var stream string
		l.exec, stream, _ = strings.Cut(rest, "/")
		l.stream = core.Stream(stream)
		if l.exec != "" && l.stream != core.Stdout && l.stream != core.Stderr {
			return bad("it ends in neither stdout nor stderr")
		}
	default:
		return bad("no resource has that name")
	}
	if l.sandbox == "" && l.kind != "" {
		return bad("it names no sandbox")
	}
	return l, nil
}

func readURI(ctx context.Context, c *tools.Call, uri string) ([]mcp.ResourceContents, error) {
	l, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	if l.sandbox == "" {
		out, err := tools.List(ctx, c, tools.ListIn{All: true})
		if err != nil {
			return nil, err
		}
		return jsonContents(uri, out)
	}
	sb, err := c.Resolve(ctx, l.sandbox)
	if err != nil {
		return nil, err
	}
	ref := sb.Ref()
	switch {
	case l.kind == "":
		return jsonContents(uri, tools.InfoOf(sb))
	case l.kind == "files":
		return fileContents(ctx, c, sb, uri, l)
	case l.kind == "exec" && l.exec == "":
		out, err := tools.ListExecs(ctx, c, tools.SandboxIn{Sandbox: ref})
		if err != nil {
			return nil, err
		}
		return jsonContents(uri, out)
	}
	output := outputOf(ctx, c, ref, l)
	defer func() { _ = output.Close() }()
	return contentsOf(c, sb.ID, uri, "", output, l.window)
}

func jsonContents(uri string, value any) ([]mcp.ResourceContents, error) {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{
		mcp.TextResourceContents{URI: uri, MIMEType: "application/json", Text: string(encoded)},
	}, nil
}

func fileContents(
	ctx context.Context, c *tools.Call, sb core.Sandbox, uri string, l location,
) ([]mcp.ResourceContents, error) {
	ref := sb.Ref()
	info, err := c.Service.Files.Stat(ctx, ref, l.path)
	if err != nil {
		return nil, err
	}
	if info.Mode.IsDir() {
		out, err := tools.ListFiles(ctx, c, tools.PathIn{Sandbox: ref, Path: l.path})
		if err != nil {
			return nil, err
		}
		return jsonContents(uri, out)
	}
	content, err := c.Service.Files.ReadFile(ctx, ref, l.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	return contentsOf(c, sb.ID, uri, l.path, content, l.window)
}

// outputOf streams a command's output from the journal, or the log of the sandbox's own command.
func outputOf(ctx context.Context, c *tools.Call, ref string, l location) io.ReadCloser {
	r, w := io.Pipe()
	opts := core.LogOptions{Exec: l.exec, Tail: -1}
	go func() { // ends when its reader is closed or there is no more
		for record, err := range c.Service.Execs.Logs(ctx, ref, opts) {
			if err != nil {
				_ = w.CloseWithError(err)
				return
			}
			if l.stream != "" && record.Stream != l.stream {
				continue
			}
			if _, err := w.Write(record.Data); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	return r
}

// contentsOf renders a window of a stream: as text if all of it is text, else as base64.
func contentsOf(c *tools.Call, sandbox, uri, name string, stream io.Reader, w window) ([]mcp.ResourceContents, error) {
	stream = c.Host.Secrets.Of(sandbox).Reader(stream)
	if w.grep != "" {
		text, err := grep(stream, w)
		if err != nil {
			return nil, err
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}, nil
	}
	skipped, err := io.CopyN(io.Discard, stream, w.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(stream, w.limit))
	if err != nil {
		return nil, err
	}
	rest, err := io.Copy(io.Discard, stream)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{"sb/offset": skipped, "sb/total": skipped + int64(len(data)) + rest}
	mimeType := "text/plain"
	if name != "" {
		mimeType = reply.MimeOf(name, data[:min(len(data), reply.SniffSize)])
	}
	if reply.IsTextRange(data, w.offset == 0, rest == 0) && !reply.IsPicture(mimeType) {
		text := data
		if w.offset > 0 {
			text = reply.TrimStart(text)
		}
		if rest > 0 {
			text = reply.TrimEnd(text)
		}
		if rest > 0 {
			// the next range has the whole of a cut character
			meta["sb/next"] = skipped + int64(len(reply.TrimEnd(data)))
		}
		return []mcp.ResourceContents{
			mcp.TextResourceContents{Meta: meta, URI: uri, MIMEType: mimeType, Text: string(text)},
		}, nil
	}
	if name == "" {
		mimeType = "application/octet-stream"
	}
	if rest > 0 {
		meta["sb/next"] = skipped + int64(len(data))
	}
	return []mcp.ResourceContents{
		mcp.BlobResourceContents{Meta: meta, URI: uri, MIMEType: mimeType, Blob: base64.StdEncoding.EncodeToString(data)},
	}, nil
}

// listTimeout bounds the lookups of a completion or a prompt.
const listTimeout = 5 * time.Second
