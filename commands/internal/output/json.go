package output

import (
	"encoding/json"
	"io"
)

// JSON writes v indented, with a newline at the end. HTML characters stay as they are.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// List writes values as a JSON array: [] when there are none, never null.
func List[T any](w io.Writer, values []T) error {
	if values == nil {
		values = []T{}
	}
	return JSON(w, values)
}

// Line writes v as one line of NDJSON.
func Line(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
