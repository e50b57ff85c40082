package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestArguments(t *testing.T) {
	type inner struct {
		Name string `json:"name"`
	}
	type in struct {
		Must  string            `json:"must" jsonschema:"what it is"`
		Count int               `json:"count,omitempty"`
		Names []string          `json:"names,omitempty"`
		Env   map[string]string `json:"env,omitempty"`
		Kind  string            `json:"kind,omitempty" enum:"one|two" default:"one"`
		Deep  *inner            `json:"deep,omitempty"`
		Exec  string            `json:"exec_id,omitempty"`
	}
	s := schemaOf[in](true)
	for _, test := range []struct{ arguments, wants string }{
		{`{"must":"x","count":3,"names":["a"],"env":{"A":"b"},"kind":"two","deep":{"name":"n"}}`, ""},
		{`{"must":"x","count":null}`, ""},
		{`{"must":"x","count":30.0,"deep":{"name":"n"}}`, ""},
		{`{"must":"x","count":3e2}`, ""},
		{`{"must":"x","count":1e300}`, `the argument "count" must be an integer, not a number`},
		{`{"must":"x","names":[2.0]}`, `the argument "names[0]" must be a string, not a number`},
		{`{}`, `the argument "must" is missing`},
		{``, `the argument "must" is missing`},
		{`{"must":5}`, `the argument "must" must be a string, not a number`},
		{`{"must":"x","count":"3"}`, `the argument "count" must be an integer, not a string`},
		{`{"must":"x","count":1.5}`, `the argument "count" must be an integer, not a number`},
		{`{"must":"x","names":"a"}`, `the argument "names" must be an array of strings, not a string`},
		{`{"must":"x","names":[1]}`, `the argument "names[0]" must be a string, not a number`},
		{`{"must":"x","env":{"A":1}}`, `the argument "env.A" must be a string, not a number`},
		{`{"must":"x","kind":"three"}`, `must be one of "one", "two", not "three"`},
		{`{"must":"x","deep":{}}`, `the argument "deep.name" is missing`},
		{`{"must":"x","cuont":1}`, `there is no argument "cuont"`},
		{`{"must":"x","exec_id":1.5}`, `the argument "exec_id" must be a string, not a number`},
		{`[1]`, `the arguments must be an object, not an array`},
		{`{"must"`, `not JSON`},
	} {
		err := s.Decode(json.RawMessage(test.arguments), new(in))
		switch {
		case test.wants == "" && err != nil:
			t.Errorf("%s: %v", test.arguments, err)
		case test.wants != "" && (err == nil || !strings.Contains(err.Error(), test.wants)):
			t.Errorf("%s: got %v, want %s", test.arguments, err, test.wants)
		}
	}
	var read in
	if err := s.Decode(json.RawMessage(`{"must":"<1.0>","count":3.0e1}`), &read); err != nil || read.Count != 30 ||
		read.Must != "<1.0>" {
		t.Errorf("a whole number with a point: %+v, %v", read, err)
	}
	if err := s.Decode(json.RawMessage(`{"must":"x","exec_id":12}`), &read); err != nil || read.Exec != "12" {
		t.Errorf("a number as exec_id: %+v, %v", read, err)
	}
	if err := s.Decode(json.RawMessage(`{"must":5}`), new(in)); core.HintOf(err) != "must: what it is" {
		t.Errorf("the hint is %q", core.HintOf(err))
	}
	if s.Root.Properties["kind"].Default == nil || !slices.Equal(s.Root.Properties["kind"].Enum, []any{"one", "two"}) {
		t.Errorf("the tags are not in the schema: %s", s.Encoded)
	}
}
