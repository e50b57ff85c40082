package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// forge signs a request as a client of another version does. Version 1 had no number.
func forge(t *testing.T, key []byte, body string) []byte {
	t.Helper()
	payload, err := json.Marshal(signed{Body: []byte(body), MAC: mac(key, []byte(body))})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestRequestsAreVerified(t *testing.T) {
	key := NewKey()
	payload, err := Request{Verb: VerbExec, Command: Command{Argv: []string{"true"}}}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(key, payload); err != nil || r.Verb != VerbExec || len(r.Argv) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for name, test := range map[string]struct {
		payload []byte
		want    core.Kind
		message string
	}{
		"another key": {forge(t, NewKey(), fmt.Sprintf(`{"version":%d}`, Version)), core.KindUnauthorized, "not signed"},
		"damaged":     {payload[:len(payload)-5], core.KindUsage, "damaged"},
		"version 1": {
			forge(t, key, `{"verb":"exec","argv":["true"]}`), core.KindUnavailable,
			fmt.Sprintf("speaks protocol 0, the sandbox's supervisor %d", Version),
		},
		"a later version": {forge(t, key, `{"version":9,"verb":{"name":"exec"}}`), core.KindUnavailable, "speaks protocol 9"},
	} {
		if _, err := Verify(key, test.payload); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	if err := CheckVersion(Version, Version); err != nil {
		t.Error(err)
	}
	err := CheckVersion(Version, 1)
	if !errors.Is(err, core.KindUnavailable) || !strings.Contains(core.HintOf(err), "use the sb that launched it") {
		t.Errorf("%v (%s)", err, core.HintOf(err))
	}
}

// Each frame type has one meaning.
func TestFrameTypesDiffer(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "frame.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(value.Names[0].Name, "Frame") {
			return true
		}
		kind := value.Values[0].(*ast.BasicLit).Value
		if names[kind] != "" {
			t.Errorf("%s and %s are both %s", names[kind], value.Names[0].Name, kind)
		}
		names[kind] = value.Names[0].Name
		return true
	})
	if len(names) < 10 {
		t.Errorf("only %d types were found", len(names))
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(AppendFrame(nil, FrameStdout, []byte("text")))
	f.Add(AppendFrame(nil, FrameRecord, AppendRecord(nil, core.LogRecord{Stream: core.Stderr, Data: []byte("x")})))
	f.Add([]byte{FrameReply, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, payload, err := ReadFrame(bytes.NewReader(data), nil)
		if err != nil {
			return
		}
		if again := AppendFrame(nil, kind, payload); !bytes.HasPrefix(data, again) {
			t.Errorf("%q was read as %q", data, again)
		}
		_, _ = ParseRecord(payload)
		_, _ = ParseStdinAck(payload)
		_, _ = Verify([]byte("key"), payload)
	})
}

// Sealed secrets come back with the same key only, and unchanged only.
func TestSealedSecrets(t *testing.T) {
	key, secrets := NewKey(), map[string]string{"TOKEN": "s3cret"}
	sealed, err := SealSecrets(key, secrets)
	if err != nil || bytes.Contains(sealed, []byte("s3cret")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := OpenSecrets(key, sealed); err != nil || !maps.Equal(got, secrets) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := OpenSecrets(NewKey(), sealed); err == nil {
		t.Errorf("with another key: %v", got)
	}
	for at := range sealed {
		changed := bytes.Clone(sealed)
		changed[at] ^= 1
		if got, err := OpenSecrets(key, changed); err == nil {
			t.Errorf("byte %d changed: %v", at, got)
		}
		if got, err := OpenSecrets(key, sealed[:at]); err == nil {
			t.Errorf("the first %d bytes: %v", at, got)
		}
	}
}
