package tools

import (
	"context"
	"net/http"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/links"
	"github.com/seed-0724f904/sb/mcp/setup"
)

const (
	linkTime = 15 * time.Minute
	// MaxLinkTime bounds the validity of a link.
	MaxLinkTime = 24 * time.Hour
)

type linkIn struct {
	Sandbox   string `json:"sandbox"`
	Path      string `json:"path"`
	Direction string `json:"direction,omitempty" jsonschema:"download answers GET with the file, upload replaces the file by the body of a PUT" enum:"download|upload" default:"download"`
	Seconds   int    `json:"expires_seconds,omitempty" jsonschema:"how long the link is valid"`
}

// LinkOut is a link and its HTTP method.
type LinkOut struct {
	URL     string    `json:"url"`
	Method  string    `json:"method" jsonschema:"GET or PUT"`
	Expires time.Time `json:"expires"`
}

// Text implements texter.
func (o LinkOut) Text() string {
	return o.Method + " " + o.URL + " (until " + o.Expires.UTC().Format(time.RFC3339) + ")"
}

func linkTools() []Tool {
	return []Tool{Define(Tool{
		Name: "file_link", Title: "Link to a file", Toolset: setup.Links, Extra: true, OpenWorld: true,
		Description: "Create a temporary link to download or upload one file of a sandbox. Anyone with the link can " +
			"use " +
			"it. Only a server over HTTP has links.",
	}, makeLink)}
}

func makeLink(ctx context.Context, c *Call, in linkIn) (LinkOut, error) {
	sb, err := c.Resolve(ctx, in.Sandbox)
	if err != nil {
		return LinkOut{}, err
	}
	lasting := linkTime
	if in.Seconds > 0 {
		lasting = min(seconds(in.Seconds), MaxLinkTime)
	}
	return c.Link(sb, in.Path, in.Direction == "upload", lasting)
}

// Link makes a link to one file, valid for lasting.
func (c *Call) Link(sb core.Sandbox, name string, upload bool, lasting time.Duration) (LinkOut, error) {
	expires := time.Now().Add(lasting)
	url, err := c.Host.Links.Make(links.Grant{
		Sandbox: sb.Ref(), Path: Absolute(sb, name), Write: upload,
		Owner: c.Identity.Owner, Isolated: c.Identity.Isolated, Key: c.Identity.Key, Expires: expires.Unix(),
	})
	if err != nil {
		return LinkOut{}, err
	}
	out := LinkOut{URL: url, Method: http.MethodGet, Expires: expires}
	if upload {
		out.Method = http.MethodPut
	}
	return out, nil
}
