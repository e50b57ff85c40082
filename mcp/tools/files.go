package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// ReadIn is the input of file_read.
type ReadIn struct {
	Sandbox string `json:"sandbox"`
	Path    string `json:"path"`
	Offset  int64  `json:"offset,omitempty" jsonschema:"first byte, from 0"`
	Line    int    `json:"line,omitempty" jsonschema:"first line, from 1; numbers the lines"`
	Budget  int    `json:"max_output,omitempty" jsonschema:"characters"`
	Base64  bool   `json:"base64,omitempty" jsonschema:"returns base64; for binary files"`
}

// ReadOut is a part of a file.
type ReadOut struct {
	Path     string `json:"path"`
	Size     int64  `json:"size" jsonschema:"bytes of the whole file"`
	Encoding string `json:"encoding" jsonschema:"text, base64, image (the picture follows, scaled down) or none (binary; see uri)"`
	Content  string `json:"content"`
	// NextOffset is where the next call continues.
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"offset of what did not fit; left out when all did"`
	NextLine   int    `json:"next_line,omitempty" jsonschema:"line of what did not fit"`
	MIMEType   string `json:"mime_type"`
	URI        string `json:"uri" jsonschema:"resource with the whole file"`
	Redacted   bool   `json:"redacted,omitempty" jsonschema:"values of secrets were taken out of the content"`
	Replaced   int    `json:"replaced,omitempty" jsonschema:"bytes that are not UTF-8, shown as U+FFFD"`

	extra []mcp.Content
}

// Attachments implements contenter.
func (o ReadOut) Attachments() []mcp.Content { return o.extra }

// Text implements texter.
func (o ReadOut) Text() string {
	switch o.Encoding {
	case "none":
		return fmt.Sprintf(
			"%s: %d bytes of %s, not text. base64: true returns bytes; complete: %s", o.Path, o.Size, o.MIMEType, o.URI,
		)
	case "image":
		return fmt.Sprintf("%s: %s, %d bytes; the original: %s", o.Path, o.MIMEType, o.Size, o.URI)
	}
	text := o.Content
	if o.Replaced > 0 {
		text += reply.ReplacedNote(o.Replaced)
	}
	if o.NextLine > 0 {
		text += fmt.Sprintf("[... continue with line %d ...]", o.NextLine)
	}
	if o.NextOffset > 0 {
		text += fmt.Sprintf("\n[... %d more bytes; continue with offset %d ...]", o.Size-o.NextOffset, o.NextOffset)
	}
	return text
}

// WriteIn is the input of file_write.
type WriteIn struct {
	Sandbox    string `json:"sandbox"`
	Path       string `json:"path"`
	Content    string `json:"content"`
	Base64     bool   `json:"base64,omitempty" jsonschema:"content is base64"`
	Append     bool   `json:"append,omitempty" jsonschema:"adds to the end of the file"`
	Executable bool   `json:"executable,omitempty"`
}

// WriteOut is the result of file_write.
type WriteOut struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes" jsonschema:"bytes written"`
	URI   string `json:"uri"`
}

// Text implements texter.
func (o WriteOut) Text() string { return fmt.Sprintf("wrote %d bytes to %s", o.Bytes, o.Path) }

// PathIn names one path.
type PathIn struct {
	Sandbox string `json:"sandbox"`
	Path    string `json:"path"`
}

// RemoveIn is the input of file_remove.
type RemoveIn struct {
	Sandbox   string `json:"sandbox"`
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also a directory with its content"`
}

// PathOut names the change to a path.
type PathOut struct {
	Path string `json:"path"`
	Done string `json:"done"`
}

// Text implements texter.
func (o PathOut) Text() string { return o.Done + " " + o.Path }

type fileEntry struct {
	Path     string    `json:"path"`
	Type     string    `json:"type" jsonschema:"file, directory, link or other"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
	Link     string    `json:"link,omitempty" jsonschema:"where a link points to"`
}

// FilesOut is a list of files.
type FilesOut struct {
	Entries []fileEntry `json:"entries"`
	Total   int         `json:"total"`
}

// Text implements texter.
func (o FilesOut) Text() string {
	var b strings.Builder
	for _, e := range o.Entries {
		b.WriteString(e.String() + "\n")
	}
	if missing := o.Total - len(o.Entries); missing > 0 {
		fmt.Fprintf(&b, "and %d more: file_find with a glob selects some\n", missing)
	}
	if o.Total == 0 {
		return "(empty)"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// String returns a line as of "ls -l".
func (e fileEntry) String() string {
	line := fmt.Sprintf("%s %10d %s %s", e.Mode, e.Size, e.Modified.UTC().Format("2006-01-02 15:04"), e.Path)
	if e.Link != "" {
		line += " -> " + e.Link
	}
	return line
}

func fileTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "file_read", Title: "Read a file", Toolset: setup.Files, ReadOnly: true, Idempotent: true,
			Description: "Read a file of a sandbox: text, a picture, or bytes as base64. A long file is cut, and " +
				"the result " +
				"names the line or offset to continue with.",
		}, ReadFile),
		Define(Tool{
			Name: "file_write", Title: "Write a file", Toolset: setup.Files, Destructive: true,
			Description: "Create a file in a sandbox, or replace its whole content. Missing directories are created.",
		}, WriteFile),
		Define(Tool{
			Name: "file_edit", Title: "Edit a file", Toolset: setup.Files, Destructive: true,
			Description: "Replace exact texts in a file of a sandbox and return the diff. If an edit does not fit, " +
				"the file " +
				"stays unchanged.",
		}, EditFile),
		Define(Tool{
			Name: "file_list", Title: "List files", Toolset: setup.Files, ReadOnly: true, Idempotent: true,
			Description: "List one directory of a sandbox, or describe one file. file_find looks at every depth.",
		}, ListFiles),
		Define(Tool{
			Name: "file_remove", Title: "Remove a file", Toolset: setup.Files, Extra: true, Destructive: true,
			Description: "Remove a file or an empty directory of a sandbox. A directory with files needs recursive: " +
				"true.",
		}, RemoveFile),
		Define(Tool{
			Name: "file_mkdir", Title: "Make a directory", Toolset: setup.Files, Extra: true, Idempotent: true,
			Description: "Create a directory in a sandbox, with its parents. file_write creates missing " +
				"directories, too.",
		}, makeDir),
	}
}

// escapePath escapes an absolute path for a URI.
func escapePath(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// FileURI returns the resource URI of a file; name is absolute.
func FileURI(sandbox, name string) string {
	return "sandbox://" + sandbox + "/files" + escapePath(name)
}

// Absolute resolves a path against the sandbox's working directory, as the core does.
func Absolute(sb core.Sandbox, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", sb.Spec.Workdir, name)
}

// ReadFile reads a part of a file.
func ReadFile(ctx context.Context, c *Call, in ReadIn) (ReadOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return ReadOut{}, err
	}
	return c.readFile(ctx, sb, in)
}

func (c *Call) readFile(ctx context.Context, sb core.Sandbox, in ReadIn) (ReadOut, error) {
	ref, name := sb.Ref(), Absolute(sb, in.Path)
	out := ReadOut{Path: name, URI: FileURI(sb.ID, name)}
	if in.Offset < 0 {
		return out, core.Errorf(core.KindUsage, "read", "", "the offset is negative")
	}
	content, err := c.Service.Files.ReadFile(ctx, ref, name)
	if err != nil {
		return out, err
	}
	defer func() { _ = content.Close() }()
	sniff := make([]byte, reply.SniffSize)
	n, err := io.ReadFull(content, sniff)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return out, err
	}
	sniff = sniff[:n]
	out.MIMEType = reply.MimeOf(name, sniff)
	whole := io.MultiReader(bytes.NewReader(sniff), content)
	if in.Offset == 0 && in.Line == 0 && !in.Base64 && reply.IsPicture(out.MIMEType) {
		return out, c.readPicture(&out, whole)
	}
	if in.Line != 0 {
		return out, c.readLines(ctx, sb, in, &out, whole)
	}
	return out, c.readRange(ctx, sb, in, &out, whole)
}

// readRange reads the part of a file that fits into a reply, from the offset. Offsets count the bytes after the removal
// of secrets, so that no secret is split between two ranges.
func (c *Call) readRange(ctx context.Context, sb core.Sandbox, in ReadIn, out *ReadOut, whole io.Reader) error {
	clean := c.Host.Secrets.Of(sb.ID).Reader(whole)
	skipped, err := io.CopyN(io.Discard, clean, in.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if skipped < in.Offset {
		return core.Errorf(
			core.KindUsage, "read", "", "offset %d is after the end of %s, which has %d bytes", in.Offset, out.Path, skipped,
		)
	}
	budget := c.Budget(in.Budget)
	most := budget * utf8.UTFMax
	if in.Base64 {
		most = budget / 4 * 3
	}
	data, err := io.ReadAll(io.LimitReader(clean, int64(most)+1)) // one more byte shows whether the file continues
	if err != nil {
		return err
	}
	seen := skipped + int64(len(data))
	if out.Size = seen; len(data) > most || clean.Found() {
		if out.Size, err = c.sizeOf(ctx, sb, out.Path, seen, len(data) > most, clean); err != nil {
			return err
		}
	}
	ends := len(data) <= most
	data = data[:min(len(data), most)]
	out.Redacted = clean.Found()
	switch {
	case in.Base64:
		out.Encoding, out.Content = "base64", base64.StdEncoding.EncodeToString(data)
	default:
		out.Encoding = "text"
		begin := 0
		if in.Offset > 0 {
			begin = len(data) - len(reply.TrimStart(data))
		}
		fitting := reply.FirstRunes(data[begin:], budget)
		ends = ends && begin+len(fitting) == len(data)
		if !ends {
			fitting = reply.TrimEnd(fitting)
		}
		var ok bool
		if out.Content, out.Replaced, ok = reply.Legible(fitting); !ok {
			out.Encoding, out.Content, out.Replaced = "none", "", 0
			out.extra = append(out.extra, fileLink(sb, out.Path, out.MIMEType, out.Size))
			return nil
		}
		data = data[:begin+len(fitting)]
	}
	if !ends {
		out.NextOffset = in.Offset + int64(len(data))
		out.extra = append(out.extra, fileLink(sb, out.Path, out.MIMEType, out.Size))
	}
	return nil
}

// sizeOf returns a file's size: the size that the sandbox reports, or else the number of bytes read. Links and files of
// /proc report no size.
func (c *Call) sizeOf(
	ctx context.Context, sb core.Sandbox, name string, seen int64, more bool, rest io.Reader,
) (int64, error) {
	info, err := c.Service.Files.Stat(ctx, sb.Ref(), name)
	switch {
	case err == nil && info.Mode.IsRegular() && info.Size > 0:
		return info.Size, nil
	case !more:
		return seen, nil
	}
	left, err := io.Copy(io.Discard, rest)
	return seen + left, err
}

func fileLink(sb core.Sandbox, name, mimeType string, size int64) mcp.ResourceLink {
	link := mcp.NewResourceLink(FileURI(sb.ID, name), path.Base(name), "the whole file", mimeType)
	link.Size = &size
	return link
}

// WriteFile creates or replaces a file.
func WriteFile(ctx context.Context, c *Call, in WriteIn) (WriteOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return WriteOut{}, err
	}
	data := []byte(in.Content)
	if in.Base64 {
		if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return WriteOut{}, core.Errorf(core.KindUsage, "write", "", "the content is not base64: %w", err)
		}
	}
	opts := core.WriteOptions{Parents: true, Append: in.Append}
	if in.Executable {
		opts.Mode = 0o755
	}
	name := Absolute(sb, in.Path)
	if err := c.Service.Files.WriteFile(ctx, sb.Ref(), name, bytes.NewReader(data), opts); err != nil {
		return WriteOut{}, err
	}
	c.Host.Changed(sb, name)
	return WriteOut{Path: name, Bytes: len(data), URI: FileURI(sb.ID, name)}, nil
}

// ListFiles lists a directory, or describes one file.
func ListFiles(ctx context.Context, c *Call, in PathIn) (FilesOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return FilesOut{}, err
	}
	ref, name := sb.Ref(), Absolute(sb, in.Path)
	info, err := c.Service.Files.Stat(ctx, ref, name)
	if err != nil {
		return FilesOut{}, err
	}
	infos := []core.FileInfo{info}
	if info.Mode.IsDir() || info.Mode&fs.ModeSymlink != 0 {
		switch entries, err := c.Service.Files.ReadDir(ctx, ref, name); {
		case err == nil:
			infos = entries
		case info.Mode.IsDir():
			return FilesOut{}, err
		}
	}
	out := FilesOut{Entries: []fileEntry{}, Total: len(infos)}
	left := c.Budget(0)
	for _, info := range infos {
		entry := entryOf(info)
		entry.Path, entry.Link = c.Host.Secrets.Clean(sb.ID, entry.Path), c.Host.Secrets.Clean(sb.ID, entry.Link)
		if left -= utf8.RuneCountInString(entry.String()) + 1; left < 0 && len(out.Entries) > 0 {
			break
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

func entryOf(info core.FileInfo) fileEntry {
	kind := "other"
	switch {
	case info.Mode.IsRegular():
		kind = "file"
	case info.Mode.IsDir():
		kind = "directory"
	case info.Mode&fs.ModeSymlink != 0:
		kind = "link"
	}
	return fileEntry{
		Path: info.Path, Type: kind, Size: info.Size, Mode: core.ModeText(info.Mode), Modified: info.ModTime, Link: info.Link,
	}
}

// RemoveFile removes a file or directory.
func RemoveFile(ctx context.Context, c *Call, in RemoveIn) (PathOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return PathOut{}, err
	}
	name := Absolute(sb, in.Path)
	if err := c.Service.Files.Remove(ctx, sb.Ref(), name, in.Recursive); err != nil {
		return PathOut{}, err
	}
	c.Host.Changed(sb, name)
	return PathOut{Path: name, Done: "removed"}, nil
}

func makeDir(ctx context.Context, c *Call, in PathIn) (PathOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return PathOut{}, err
	}
	name := Absolute(sb, in.Path)
	if err := c.Service.Files.Mkdir(ctx, sb.Ref(), name, true); err != nil {
		return PathOut{}, err
	}
	return PathOut{Path: name, Done: "created"}, nil
}

// readPicture makes a reply of a picture. A picture that cannot be shown is described instead.
func (c *Call) readPicture(out *ReadOut, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, reply.PictureBytes))
	if err != nil {
		return err
	}
	more, err := io.Copy(io.Discard, content)
	if err != nil {
		return err
	}
	out.Size, out.Encoding = int64(len(data))+more, "none"
	original := mcp.NewResourceLink(out.URI, path.Base(out.Path), "the original", out.MIMEType)
	if small, mimeType, ok := c.Host.pictures.Scaled(data); ok && more == 0 {
		out.Encoding = "image"
		out.extra = append(out.extra, mcp.NewImageContent(base64.StdEncoding.EncodeToString(small), mimeType))
	}
	out.extra = append(out.extra, original)
	return nil
}
