package reply

import (
	"bytes"
	"image"
	_ "image/gif" // the formats that can be scaled
	"image/jpeg"
	"image/png"
	"sync"

	"golang.org/x/image/draw"
)

const (
	// pictureSide is the longest side of a picture in a reply.
	pictureSide = 768
	// PictureBytes bounds the bytes read of a picture. picturePixels bounds its decoded pixels, of up to 8 bytes each.
	PictureBytes  = 32 << 20
	picturePixels = 32 << 20
	// pictureReply bounds a picture that is returned unchanged, in bytes.
	pictureReply = 1 << 20
)

// Pictures decodes one picture at a time: a small file can expand to hundreds of megabytes, and sandboxes are not
// trusted.
type Pictures struct{ mu sync.Mutex }

// Scaled returns a picture that fits into a reply: the original if it is small, else a smaller version.
func (p *Pictures) Scaled(data []byte) (small []byte, mimeType string, ok bool) {
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
	case fits: // the dimensions fit, but the file is too large
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
