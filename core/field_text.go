package core

import (
	"fmt"
	"strconv"
)

// Parse sets a field that holds one value to a text; "" leaves it open. It returns false for a field of other types.
// Errors are KindUsage.
func (f Field) Parse(s *Spec, text string) (parsed bool, err error) {
	f.Clear(s)
	switch value := f.ref(s).(type) {
	case *string:
		*value = text
	case *PullPolicy:
		*value = PullPolicy(text)
	case *float64:
		if text == "" {
			break
		}
		if *value, err = strconv.ParseFloat(text, 64); err != nil {
			err = Errorf(KindUsage, "parse", text, "%s: %q is not a number", f.Name, text)
		}
	case *Bytes:
		if text != "" {
			*value, err = ParseBytes(text)
		}
	case *Duration:
		if text != "" {
			*value, err = ParseTimeout(text)
		}
	case *GPU:
		*value, err = ParseGPU(text)
	default:
		return false, nil
	}
	return true, err
}

// Text returns the text that Parse reads. It is "" for an open field and for a field of other types.
func (f Field) Text(s Spec) string {
	if f.IsZero(s) {
		return ""
	}
	switch value := f.Value(s).(type) {
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case Bytes:
		return value.Exact()
	case string, PullPolicy, Duration, GPU:
		return fmt.Sprint(value)
	}
	return ""
}
