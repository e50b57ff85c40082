package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0724f904/sb/core"
)

// Schema is the JSON schema of a struct, parsed for validation and encoded for clients.
type Schema struct {
	Root    *jsonschema.Schema
	Encoded json.RawMessage
}

// schemaOf makes the schema of T. A strict schema accepts no properties besides those of T. It panics for a type
// without a schema: types are fixed at build time, and a test makes every tool's schema.
func schemaOf[T any](strict bool) *Schema {
	root, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[core.Bytes](): {Type: "integer"},
		reflect.TypeFor[core.Kind]():  {Type: "string"},
	}})
	if err != nil {
		panic(fmt.Sprintf("mcp: no schema: %v", err))
	}
	settle(root, reflect.TypeFor[T](), strict)
	open := *root
	open.AdditionalProperties = nil // Decode names the nearest argument for an unknown one; a client's check would not
	encoded, err := json.Marshal(&open)
	if err != nil {
		panic(fmt.Sprintf("mcp: no schema: %v", err))
	}
	return &Schema{Root: root, Encoded: encoded}
}

// settle removes additions that inference makes for Go: a slice is never null for a caller. It adds the values of the
// tags enum and default.
func settle(s *jsonschema.Schema, t reflect.Type, strict bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) > 0 {
		s.Types = slices.DeleteFunc(s.Types, func(name string) bool { return name == "null" })
		if len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
	if s.Items != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		settle(s.Items, t.Elem(), strict)
	}
	if s.AdditionalProperties != nil && t.Kind() == reflect.Map {
		settle(s.AdditionalProperties, t.Elem(), strict)
	}
	if t.Kind() != reflect.Struct {
		return
	}
	if !strict {
		s.AdditionalProperties = nil // a later version may have more properties
	}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil {
			continue
		}
		settle(property, field.Type, strict)
		if of := field.Tag.Get("spec"); of != "" && property.Description == "" {
			property.Description = core.FieldNamed(of).Help()
			for _, choice := range core.FieldNamed(of).Choices {
				property.Enum = append(property.Enum, choice)
			}
		}
		if choices := field.Tag.Get("enum"); choices != "" {
			target := property
			if property.Items != nil {
				target = property.Items
			}
			for choice := range strings.SplitSeq(choices, "|") {
				target.Enum = append(target.Enum, choice)
			}
		}
		if fallback := field.Tag.Get("default"); fallback != "" {
			encoded := json.RawMessage(fallback)
			if property.Type == "string" {
				encoded, _ = json.Marshal(fallback)
			}
			property.Default = encoded
		}
	}
}

// Decode decodes arguments into a value of the schema's struct. An invalid argument returns one error of KindUsage,
// which names the argument, its actual value or type, and the expected one.
func (s *Schema) Decode(arguments json.RawMessage, into any) error {
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 || bytes.Equal(arguments, []byte("null")) {
		arguments = json.RawMessage("{}")
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return core.Errorf(core.KindUsage, "arguments", "", "the arguments are not JSON: %s", err)
	}
	_, changed := wholeNumbers(value)
	if idAsText(s.Root, value) || changed {
		var err error
		if arguments, err = json.Marshal(value); err != nil {
			return core.Errorf(core.KindUsage, "arguments", "", "the arguments cannot be read: %s", err)
		}
	}
	if err := check("", s.Root, value); err != nil {
		return err
	}
	if err := json.Unmarshal(arguments, into); err != nil {
		return core.Errorf(core.KindUsage, "arguments", "", "the arguments cannot be read: %s", err)
	}
	return nil
}

// check validates a decoded value against a schema.
func check(name string, s *jsonschema.Schema, value any) error {
	if kind := jsonKind(value); !fits(s, kind, value) {
		return explained(
			name, s, core.Errorf(core.KindUsage, "arguments", "", "%s must be %s, not %s", label(name), wanted(s), kind),
		)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		return explained(
			name, s,
			core.Errorf(
				core.KindUsage, "arguments", "", "%s must be one of %s, not %q", label(name), choices(s.Enum), fmt.Sprint(value),
			),
		)
	}
	switch value := value.(type) {
	case map[string]any:
		return checkObject(name, s, value)
	case []any:
		for i, item := range value {
			if s.Items == nil {
				break
			}
			if err := check(fmt.Sprintf("%s[%d]", name, i), s.Items, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// explained adds the argument's description as a hint.
func explained(name string, s *jsonschema.Schema, e *core.Error) error {
	if s == nil || s.Description == "" {
		return e
	}
	return e.WithHint("%s: %s", name, s.Description)
}

// wholeNumbers rewrites whole numbers in the form of Go's integers, since some clients send 30 as 30.0. It changes maps
// and slices in place.
func wholeNumbers(value any) (_ any, changed bool) {
	switch value := value.(type) {
	case json.Number:
		f, err := value.Float64()
		if err == nil && strings.ContainsAny(value.String(), ".eE") && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return json.Number(strconv.FormatInt(int64(f), 10)), true
		}
	case map[string]any:
		for key, item := range value {
			if whole, is := wholeNumbers(item); is {
				value[key], changed = whole, true
			}
		}
	case []any:
		for i, item := range value {
			if whole, is := wholeNumbers(item); is {
				value[i], changed = whole, true
			}
		}
	}
	return value, changed
}

// idAsText rewrites a whole number for exec_id as text, since models send 1 for "1". It reports whether it did.
func idAsText(s *jsonschema.Schema, value any) bool {
	const name = "exec_id"
	arguments, _ := value.(map[string]any)
	number, ok := arguments[name].(json.Number)
	if !ok || s.Properties[name] == nil || s.Properties[name].Type != "string" {
		return false
	}
	if _, err := number.Int64(); err != nil {
		return false
	}
	arguments[name] = number.String()
	return true
}

func checkObject(name string, s *jsonschema.Schema, value map[string]any) error {
	for _, required := range s.Required {
		if _, there := value[required]; !there {
			return explained(
				required, s.Properties[required],
				core.Errorf(core.KindUsage, "arguments", "", "the argument %q is missing", join(name, required)),
			)
		}
	}
	keys := make([]string, 0, len(value))
	for key := range value {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		property := s.Properties[key]
		switch {
		case property != nil:
		case len(s.Properties) == 0 && s.AdditionalProperties != nil:
			property = s.AdditionalProperties
		case s.AdditionalProperties != nil:
			return unknownArgument(join(name, key), key, s)
		default:
			continue
		}
		if value[key] == nil && !slices.Contains(s.Required, key) {
			continue // null means an omitted argument
		}
		if err := check(join(name, key), property, value[key]); err != nil {
			return err
		}
	}
	return nil
}

func unknownArgument(path, key string, s *jsonschema.Schema) error {
	var known []string
	for name := range s.Properties {
		known = append(known, name)
	}
	slices.Sort(known)
	e := core.Errorf(core.KindUsage, "arguments", "", "there is no argument %q", path)
	if near := core.Nearest(key, known); near != "" {
		return e.WithHint("did you mean %q? the arguments are %s", near, strings.Join(known, ", "))
	}
	return e.WithHint("the arguments are %s", strings.Join(known, ", "))
}

func jsonKind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

func fits(s *jsonschema.Schema, kind string, value any) bool {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) == 0 {
		return true
	}
	for _, t := range types {
		switch {
		case t == "integer" && kind == "a number":
			n, _ := value.(json.Number)
			if _, err := n.Int64(); err == nil {
				return true
			}
		case article(t) == kind:
			return true
		}
	}
	return false
}

func article(t string) string {
	switch t {
	case "object", "array", "integer":
		return "an " + t
	case "null":
		return t
	}
	return "a " + t
}

func wanted(s *jsonschema.Schema) string {
	if s.Type != "" {
		if s.Type == "array" && s.Items != nil && s.Items.Type != "" {
			return "an array of " + s.Items.Type + "s"
		}
		return article(s.Type)
	}
	names := make([]string, len(s.Types))
	for i, t := range s.Types {
		names[i] = article(t)
	}
	return strings.Join(names, " or ")
}

func choices(enum []any) string {
	names := make([]string, len(enum))
	for i, e := range enum {
		names[i] = fmt.Sprintf("%q", fmt.Sprint(e))
	}
	return strings.Join(names, ", ")
}

func join(name, key string) string {
	if name == "" {
		return key
	}
	return name + "." + key
}

func label(name string) string {
	if name == "" {
		return "the arguments"
	}
	return fmt.Sprintf("the argument %q", name)
}
