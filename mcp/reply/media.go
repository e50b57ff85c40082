package reply

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// SniffSize is the number of bytes that identify a file's type.
const SniffSize = 512

// MimeOf returns a file's type by its content, or by its name where the content is not specific.
func MimeOf(name string, beginning []byte) string {
	sniffed, _, _ := mime.ParseMediaType(http.DetectContentType(beginning))
	if sniffed != "text/plain" && sniffed != "application/octet-stream" && sniffed != "text/xml" {
		return sniffed
	}
	_, _, text := Legible(TrimEnd(beginning))
	if sniffed = "text/plain"; !text {
		sniffed = "application/octet-stream"
	}
	byName, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	if err != nil || !text && strings.HasPrefix(byName, "text/") {
		return sniffed
	}
	return byName
}

// IsPicture reports whether Pictures can scale files of the type.
func IsPicture(mimeType string) bool {
	return mimeType == "image/png" || mimeType == "image/jpeg" || mimeType == "image/gif"
}

// IsText reports whether data is UTF-8 without NUL. A character may be cut at either end.
func IsText(data []byte) bool { return IsTextRange(data, false, false) }

// IsTextRange is IsText for a range. begins and ends report that no character is cut at that side.
func IsTextRange(data []byte, begins, ends bool) bool {
	if !begins {
		data = TrimStart(data)
	}
	if !ends {
		data = TrimEnd(data)
	}
	return bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}

// legible is how many bytes of text there are for each byte that is not UTF-8, at least.
const legible = 8

// Legible returns data as text for a model. It replaces bytes that are not UTF-8, and NUL, by U+FFFD and counts them.
// It returns false for data that has too many of them to be text.
func Legible(data []byte) (text string, replaced int, ok bool) {
	var b strings.Builder
	for rest := data; len(rest) > 0; {
		r, width := utf8.DecodeRune(rest)
		if r == 0 || r == utf8.RuneError && width == 1 {
			r = utf8.RuneError
			replaced++
		}
		b.WriteRune(r)
		rest = rest[width:]
	}
	return b.String(), replaced, replaced <= len(data)/legible
}

// ReplacedNote is the line about replaced bytes.
func ReplacedNote(replaced int) string {
	return fmt.Sprintf("\n[bytes that are not UTF-8, shown as \uFFFD: %d]", replaced)
}

// TrimStart removes a partial character at the beginning.
func TrimStart(data []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
		data = data[1:]
	}
	return data
}

// TrimEnd removes a partial character at the end.
func TrimEnd(data []byte) []byte {
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
