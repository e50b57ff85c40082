package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/links"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// fileIn names a file.
type fileIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Path    string `json:"path" jsonschema:"absolute, or below the working directory"`
}

// fileWriteIn is the input of an upload.
type fileWriteIn struct {
	Sandbox    string `json:"sandbox" jsonschema:"id or name"`
	Path       string `json:"path" jsonschema:"missing directories are created"`
	Executable bool   `json:"executable,omitempty"`
}

// bytesOut is a body of bytes.
type bytesOut struct{}

// served is the function of a tool whose operation has a handler. It is never called.
func served[In, Out any](_ context.Context, c *tools.Call, _ In) (out Out, err error) {
	return out, core.Errorf(core.KindInternal, "api", c.Session.ID, "the operation has a handler")
}

func download() operation {
	return operation{
		method: http.MethodGet, path: sandboxPath + "/files", produces: []string{octets}, handle: (*API).download,
		tool: tools.Define(tools.Tool{
			Name: "file_read", Title: "Download a file", ReadOnly: true,
			Description: "Read the bytes of a file. Regular files have an ETag, and take the headers Range, If-Range, " +
				"If-Match and If-None-Match. The values of secrets are not removed.",
		}, served[fileIn, bytesOut]),
	}
}

func upload() operation {
	return operation{
		method: http.MethodPut, path: sandboxPath + "/files", status: http.StatusNoContent, sends: octets,
		handle: (*API).upload,
		tool: tools.Define(tools.Tool{
			Name: "file_write", Title: "Upload a file",
			Description: "Create or replace a file with the body of the request, atomically. With If-Match, only the file " +
				"with that ETag is replaced; with If-None-Match: *, only a new file is created.",
		}, served[fileWriteIn, bytesOut]),
	}
}

// download sends the content of a file. The content is hostile, so a browser only stores it.
func (a *API) download(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	var in fileIn
	if err := op.decode(r, &in); err != nil {
		return err
	}
	sb, err := c.Use(r.Context(), in.Sandbox)
	if err != nil {
		return err
	}
	return links.Download(w, r, c.Service, links.File{Sandbox: sb.Ref(), Path: tools.Absolute(sb, in.Path)})
}

// upload writes a file.
func (a *API) upload(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	var in fileWriteIn
	if err := op.decode(r, &in); err != nil {
		return err
	}
	sb, err := c.Use(r.Context(), in.Sandbox)
	if err != nil {
		return err
	}
	name := tools.Absolute(sb, in.Path)
	done, err := c.Editing(r.Context(), sb, name)
	if err != nil {
		return err
	}
	defer done()
	if err := precondition(r, c, sb, name); err != nil {
		return err
	}
	opts := core.WriteOptions{Parents: true}
	if in.Executable {
		opts.Mode = 0o755
	}
	err = links.Upload(w, r, c.Service, links.File{Sandbox: sb.Ref(), Path: name}, opts)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &failure{http.StatusRequestEntityTooLarge, err}
	}
	if err != nil {
		return err
	}
	a.host.Changed(sb, name)
	if info, err := c.Service.Files.Stat(r.Context(), sb.Ref(), name); err == nil {
		w.Header().Set("ETag", links.ETag(info))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// precondition checks the headers If-Match and If-None-Match of an upload. Other uploads and edits of this server wait
// meanwhile; programs in the sandbox do not.
func precondition(r *http.Request, c *tools.Call, sb core.Sandbox, name string) error {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if match == "" && none == "" {
		return nil
	}
	info, err := c.Service.Files.Stat(r.Context(), sb.Ref(), name)
	there := err == nil
	if !there && !errors.Is(err, core.KindNotFound) {
		return err
	}
	if none != "" && none != "*" {
		return core.Errorf(core.KindUsage, "write", "", "If-None-Match is only taken with *")
	}
	if none != "" && there || match != "" && (!there || match != "*" && match != links.ETag(info)) {
		return &failure{http.StatusPreconditionFailed, core.Errorf(
			core.KindConflict, "write", name, "the file is not in the state that the request expects",
		).WithHint("read it again, and send its ETag as If-Match")}
	}
	return nil
}
