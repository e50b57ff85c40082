package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

const (
	linkTime    = 15 * time.Minute
	maxLinkTime = 24 * time.Hour
)

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

func (o linkOut) Text() string {
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
	expires := time.Now().Add(lasting)
	url, err := c.host.Links.make(grant{
		Sandbox: sb.Ref(), Path: absolute(sb, name), Write: upload,
		Owner: c.who.Owner, Isolated: c.who.Isolated, Key: c.who.Key, Expires: expires.Unix(),
	})
	if err != nil {
		return linkOut{}, err
	}
	out := linkOut{URL: url, Method: http.MethodGet, Expires: expires}
	if upload {
		out.Method = http.MethodPut
	}
	return out, nil
}
