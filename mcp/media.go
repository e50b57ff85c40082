package mcp

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// sniffSize is how much of a file tells its type.
const sniffSize = 512

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

// isText says whether bytes are text for a model: UTF-8 without NUL, where a character may be cut at either end.
func isText(data []byte) bool { return isTextRange(data, false, false) }

// isTextRange is isText of a part that begins or ends with the whole, where no character is cut.
func isTextRange(data []byte, begins, ends bool) bool {
	if !begins {
		data = trimStart(data)
	}
	if !ends {
		data = trimEnd(data)
	}
	return bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}

// trimPartial cuts what is left of a character at the beginning and at the end.
func trimPartial(data []byte) []byte { return trimEnd(trimStart(data)) }

// trimStart cuts what is left of a character at the beginning.
func trimStart(data []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
		data = data[1:]
	}
	return data
}

// trimEnd cuts what is left of a character at the end.
func trimEnd(data []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(data)); i++ {
		if at := len(data) - i; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return data[:at]
			}
			break
		}
	}
	return data
}
