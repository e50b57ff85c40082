package seal_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed-0724f904/sb/internal/seal"
)

type value struct {
	Name  string         `json:"name"`
	Count int            `json:"count"`
	Args  map[string]any `json:"args,omitempty"`
}

func TestEveryChangedByteIsFound(t *testing.T) {
	want := value{Name: "a name, \"crc32c\":\"", Count: 1234, Args: map[string]any{"at": "2026-01-02", "on": true}}
	text, err := seal.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatalf("not JSON: %s", text)
	}
	for at := range text {
		for change := 1; change < 256; change++ {
			changed := append([]byte(nil), text...)
			changed[at] ^= byte(change)
			var got value
			if err := seal.Unmarshal(changed, &got); err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("byte %d changed by %#x: %s is believed", at, change, changed)
			}
		}
	}
	for size := range text {
		var got value
		if err := seal.Unmarshal(text[:size], &got); err == nil {
			t.Fatalf("the first %d bytes are believed", size)
		}
	}
	var got value
	if err := seal.Unmarshal(append(text, '\n'), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("unchanged: %+v, %v", got, err)
	}
}

// Earlier versions wrote no checksum.
func TestWithoutAChecksum(t *testing.T) {
	var got value
	if err := seal.Unmarshal([]byte(`{"name":"old","count":1}`), &got); err != nil || got.Name != "old" || got.Count != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOnlyObjects(t *testing.T) {
	for _, v := range []any{nil, 1, "text", []int{1}, struct{}{}, map[string]int{}} {
		if text, err := seal.Marshal(v); err == nil {
			t.Errorf("%#v became %s", v, text)
		}
	}
}
