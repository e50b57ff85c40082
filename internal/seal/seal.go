package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// The checksum is the last member of the object: ,"crc32c":"01234567"}. It covers all bytes before it.
const (
	key    = `,"crc32c":"`
	end    = `"}`
	digits = 8
	member = len(key) + digits + len(end)
)

// Marshal returns v as one line of JSON with a checksum. v must encode as an object with at least one member, and
// without a member "crc32c".
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(text) <= len("{}") || text[0] != '{' {
		return nil, fmt.Errorf("%T is not an object with members", v)
	}
	text = text[:len(text)-1]
	return fmt.Appendf(text, "%s%08x%s", key, sum(text), end), nil
}

// Unmarshal decodes the result of Marshal into v. It returns an error if a byte has changed. It also decodes JSON
// without a checksum, which earlier versions of sb wrote.
func Unmarshal(text []byte, v any) error {
	text = bytes.TrimSpace(text)
	if at := len(text) - member; at >= 0 && bytes.HasPrefix(text[at:], []byte(key)) {
		if have := fmt.Sprintf("%08x", sum(text[:at])); have != string(text[at+len(key):at+len(key)+digits]) {
			return errors.New("its checksum differs")
		}
	}
	return json.Unmarshal(text, v)
}

func sum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }
