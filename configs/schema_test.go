package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// Editors check config.yaml and spec files with the schemas, which are generated from the types:
// UPDATE=1 go test ./configs -run TestSchemas.
func TestSchemas(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{"schema.json": configSchema(), "spec.schema.json": specSchema(t)}
	for file, schema := range schemas {
		want, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the types; update it with: UPDATE=1 go test ./configs -run TestSchemas (%v)", file, err)
		}
	}
}

func configSchema() *jsonschema.Schema {
	none := func() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }
	root := &jsonschema.Schema{
		Schema: dialect, Title: "config.yaml of sb", Types: []string{"object", "null"},
		Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: none(),
	}
	for _, k := range keys() {
		in, name := root, k.name
		if head, below, nested := strings.Cut(k.name, "."); nested {
			if root.Properties[head] == nil {
				root.Properties[head] = &jsonschema.Schema{
					Types: []string{"object", "null"}, Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: none(),
				}
				root.PropertyOrder = append(root.PropertyOrder, head)
			}
			in, name = root.Properties[head], below
		}
		in.Properties[name] = settingSchema(k)
		in.PropertyOrder = append(in.PropertyOrder, name)
	}
	return root
}

func settingSchema(k key) *jsonschema.Schema {
	s := &jsonschema.Schema{Description: k.doc}
	switch k.kind {
	case kindText, kindPrices:
		s.Type = "string"
	case kindChoice:
		for _, c := range k.choices {
			s.Enum = append(s.Enum, c)
		}
	case kindSize, kindDuration:
		s.Types = []string{"string", "number"}
	case kindWhole:
		s.Type, s.Minimum = "integer", new(0.0)
	case kindDecimal:
		s.Type, s.Minimum = "number", new(0.0)
	}
	return s
}

func specSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	quantity := &jsonschema.Schema{Types: []string{"string", "number"}}
	options := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[core.Bytes]():    quantity,
		reflect.TypeFor[core.Duration](): quantity,
		reflect.TypeFor[core.GPU]():      {Type: "string", Description: "TYPE or TYPE:COUNT"},
		reflect.TypeFor[core.NetworkMode](): {Enum: []any{
			string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow),
		}},
		reflect.TypeFor[core.PullPolicy](): {Enum: []any{
			string(core.PullMissing), string(core.PullAlways), string(core.PullNever),
		}},
		reflect.TypeFor[core.PortProtocol](): {Enum: []any{
			string(core.PortTCP), string(core.PortHTTPS), string(core.PortH2),
		}},
	}}
	modal, err := jsonschema.For[*modalspec.Section](options)
	if err != nil {
		t.Fatal(err)
	}
	options.TypeSchemas[reflect.TypeFor[json.RawMessage]()] = modal
	schema, err := jsonschema.For[core.Spec](options)
	if err != nil {
		t.Fatal(err)
	}
	schema.Schema, schema.Title = dialect, "launch spec of sb"
	docs := fieldDocs(t)
	describe(schema, reflect.TypeFor[core.Spec](), docs)
	describe(schema.Properties["modal"], reflect.TypeFor[modalspec.Section](), docs)
	return schema
}

// describe copies the comments of a struct's fields into its schema.
func describe(schema *jsonschema.Schema, of reflect.Type, docs map[string]string) {
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if doc := docs[of.Name()+"."+field.Name]; doc != "" {
			property.Description = doc
		}
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Slice {
			inner, property = inner.Elem(), property.Items
		}
		if inner.Kind() == reflect.Struct && property != nil {
			describe(property, inner, docs)
		}
	}
}

// fieldDocs returns the comments of core's struct fields, by "Type.Field".
func fieldDocs(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, name := range []string{"spec.go", "secret.go", "probe.go", "providers/modal/modalspec/modalspec.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../core/"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			declared, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := declared.Type.(*ast.StructType); ok {
				for _, field := range body.Fields.List {
					text := field.Doc.Text() + field.Comment.Text()
					for _, name := range field.Names {
						docs[declared.Name.Name+"."+name.Name] = strings.Join(strings.Fields(text), " ")
					}
				}
			}
			return false
		})
	}
	return docs
}

// The schemas and the readers accept the same files.
func TestSchemasAgreeWithReaders(t *testing.T) {
	config, spec := resolve(t, configSchema()), resolve(t, specSchema(t))
	readSpec := func(text string) error { _, err := ReadSpec("spec.yaml", strings.NewReader(text)); return err }
	readConfig := func(text string) error { _, err := Load(write4test(t, text), lookup(nil)); return err }
	for _, tt := range []struct {
		schema *jsonschema.Resolved
		read   func(string) error
		text   string
		valid  bool
	}{
		{config, readConfig, "defaults: {memory: 1GiB, cpu: 2, network: none}\nprovider: local\n", true},
		{config, readConfig, template(), true},
		{config, readConfig, "defaults: {memroy: 1GiB}\n", false},
		{config, readConfig, "provider: 3\n", false},
		{config, readConfig, "provider: [a]\n", false},
		{config, readConfig, "defaults: {processes: -1}\n", false},
		{config, readConfig, "defaults: {network: everywhere}\n", false},
		{
			spec, readSpec,
			"name: a\nmemory: 1GiB\ntimeout: 90\nports: [{port: 80}]\nnetwork: {mode: none}\nsecrets: [{name: A}]\ngpu: T4\n",
			true,
		},
		{
			spec, readSpec,
			"ready: {tcp: 8080, interval: 500ms}\ninbound: [203.0.113.0/24]\nports: [{port: 80, protocol: h2}]\n", true,
		},
		{
			spec, readSpec,
			"modal: {regions: [us-east], memory_limit: 4GiB, buckets: [{name: data, target: /data}], headers: [{domain: " +
				"example.com, headers: {X-A: $KEY}}], experimental: {a: 'true'}}\n",
			true,
		},
		{spec, readSpec, "modal: {region: us-east}\n", false},
		{spec, readSpec, "ready: {port: 8080}\n", false},
		{spec, readSpec, "memroy: 1GiB\n", false},
		{spec, readSpec, "network: {mod: none}\n", false},
		{spec, readSpec, "secrets: [{name: A, value: b}]\n", false},
		{spec, readSpec, "pip: numpy\n", false},
		{spec, readSpec, "persist: maybe\n", false},
	} {
		var value any
		if err := yaml.Unmarshal([]byte(tt.text), &value); err != nil {
			t.Fatal(err)
		}
		bySchema, byReader := tt.schema.Validate(jsonForm(t, value)), tt.read(tt.text)
		if (bySchema == nil) != tt.valid || (byReader == nil) != tt.valid {
			t.Errorf("%q: schema: %v, reader: %v", tt.text, bySchema, byReader)
		}
	}
}

func resolve(t *testing.T, schema *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// jsonForm converts a value to the types that JSON decodes to, because schemas describe JSON.
func jsonForm(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var form any
	if err := json.Unmarshal(text, &form); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", text, err))
	}
	return form
}
