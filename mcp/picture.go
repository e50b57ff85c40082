package mcp

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/gif" // the formats that can be scaled
	"image/jpeg"
	"image/png"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/image/draw"
)

const (
	// sniffSize is how much of a file tells its type.
	sniffSize = 512
	// pictureSide is the longest side of a picture in a reply.
	pictureSide = 768
	// pictureBytes bounds what is read of a picture, picturePixels what is decoded, in up to 8 bytes each.
	pictureBytes  = 32 << 20
	picturePixels = 32 << 20
	// pictureReply bounds a picture that goes into a reply as it is.
	pictureReply = 1 << 20
)

// mimeOf is a file's type by its content, and by its name where the content says little.
func mimeOf(name string, beginning []byte) string {
	sniffed, _, _ := mime.ParseMediaType(http.DetectContentType(beginning))
	if sniffed != "text/plain" && sniffed != "application/octet-stream" && sniffed != "text/xml" {
		return sniffed
	}
	text := isText(beginning)
	if sniffed = "text/plain"; !text {
		sniffed = "application/octet-stream"
	}
	byName, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	if err != nil || !text && strings.HasPrefix(byName, "text/") {
		return sniffed
	}
	return byName
}

func isPicture(mimeType string) bool {
	return mimeType == "image/png" || mimeType == "image/jpeg" || mimeType == "image/gif"
}

// readPicture makes a reply of a picture; one that cannot be shown is described.
func (c *call) readPicture(out *readOut, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, pictureBytes))
	if err != nil {
		return err
	}
	more, err := io.Copy(io.Discard, content)
	if err != nil {
		return err
	}
	out.Size, out.Encoding = int64(len(data))+more, "none"
	original := mcp.NewResourceLink(out.URI, path.Base(out.Path), "the original", out.MIMEType)
	if small, mimeType, ok := c.server.pictures.scaled(data); ok && more == 0 {
		out.Encoding = "image"
		out.extra = append(out.extra, mcp.NewImageContent(base64.StdEncoding.EncodeToString(small), mimeType))
	}
	out.extra = append(out.extra, original)
	return nil
}

// pictures decodes one picture at a time: a small file can be hundreds of megabytes then, and sandboxes write what they want.
type pictures struct{ mu sync.Mutex }

// scaled returns a picture that fits into a reply: itself when it is small, else a smaller one.
func (p *pictures) scaled(data []byte) (small []byte, mimeType string, ok bool) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width <= 0 || config.Height <= 0 || config.Width > picturePixels/config.Height {
		return nil, "", false
	}
	fits := config.Width <= pictureSide && config.Height <= pictureSide
	if fits && len(data) <= pictureReply {
		return data, "image/" + format, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	full, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, "", false
	}
	width, height := pictureSide, max(1, config.Height*pictureSide/config.Width)
	switch {
	case fits: // it has more in it than the picture
		width, height = config.Width, config.Height
	case config.Height > config.Width:
		width, height = max(1, config.Width*pictureSide/config.Height), pictureSide
	}
	target := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.ApproxBiLinear.Scale(target, target.Bounds(), full, full.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	if format == "jpeg" {
		return encoded(&b, "image/jpeg", jpeg.Encode(&b, target, &jpeg.Options{Quality: 85}))
	}
	return encoded(&b, "image/png", png.Encode(&b, target))
}

func encoded(b *bytes.Buffer, mimeType string, err error) (small []byte, kind string, ok bool) {
	return b.Bytes(), mimeType, err == nil
}
