package configs

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// maxSpec is the largest spec file, in bytes.
const maxSpec = 4 << 20

// ReadSpec reads a launch spec in YAML or JSON. spec.schema.json describes the fields: the JSON names of core.Spec.
// Secrets have names and references, never values. Text needs no quotes: "python: 3.10" is the text 3.10. An error is
// core.KindUsage with the subject source.
func ReadSpec(source string, r io.Reader) (core.Spec, error) {
	fail := func(err error) (core.Spec, error) {
		bad := core.Errorf(core.KindUsage, "launch", source, "%w", err)
		return core.Spec{}, bad.WithHint("%s", cmp.Or(core.HintOf(err), "see the fields with: sb launch --help"))
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSpec+1))
	if err != nil {
		return fail(err)
	}
	if len(text) > maxSpec {
		return fail(fmt.Errorf("the file is larger than %s", core.Bytes(maxSpec)))
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return core.Spec{}, nil
	} else if err != nil {
		return fail(fmt.Errorf("invalid YAML: %w", err))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return fail(errors.New("the file has more than one YAML document"))
	}
	var spec core.Spec
	if err := fill(reflect.ValueOf(&spec).Elem(), document.Content[0], ""); err != nil {
		return fail(err)
	}
	return spec, nil
}

// fill reads a node into a value of core.Spec's types. field is its dotted name.
func fill(into reflect.Value, node *yaml.Node, field string) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return nil
	}
	if into.Type() == reflect.TypeFor[json.RawMessage]() { // Spec.Modal
		var section modalspec.Section
		if err := fill(reflect.ValueOf(&section).Elem(), node, field); err != nil {
			return err
		}
		into.SetBytes(section.JSON())
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return fill(into.Elem(), node, field)
	case reflect.Struct:
		if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr()); ok {
			return fillScalar(into, node, field)
		}
		return fillStruct(into, node, field)
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		return eachPair(node, field, func(key, value *yaml.Node) error {
			item := reflect.New(into.Type().Elem()).Elem()
			err := fill(item, value, join(field, key.Value))
			into.SetMapIndex(reflect.ValueOf(key.Value), item)
			return err
		})
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			return mismatch(node, field, "a list")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
		for i, item := range node.Content {
			if err := fill(into.Index(i), item, fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		return fillScalar(into, node, field)
	}
}

func fillStruct(into reflect.Value, node *yaml.Node, field string) error {
	fields := map[string]reflect.Value{}
	for i := range into.NumField() {
		if name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ","); name != "-" {
			fields[name] = into.Field(i)
		}
	}
	return eachPair(node, field, func(key, value *yaml.Node) error {
		name := join(field, key.Value)
		into, ok := fields[key.Value]
		if !ok {
			return unknownField(key, name, field, slices.Sorted(maps.Keys(fields)))
		}
		return fill(into, value, name)
	})
}

func fillScalar(into reflect.Value, node *yaml.Node, field string) error {
	if node.Kind != yaml.ScalarNode {
		return mismatch(node, field, "a single value")
	}
	if parser, ok := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr()); ok {
		return at(node, field, parser.UnmarshalText([]byte(node.Value)))
	}
	isTimeout := field == "timeout" || field == "idle_timeout"
	if timeout, ok := reflect.TypeAssert[*core.Duration](into.Addr()); ok && isTimeout {
		parsed, err := core.ParseTimeout(node.Value)
		*timeout = parsed
		return at(node, field, err)
	}
	if parser, ok := reflect.TypeAssert[json.Unmarshaler](into.Addr()); ok {
		text, err := json.Marshal(node.Value)
		if err == nil {
			err = parser.UnmarshalJSON(text)
		}
		return at(node, field, err)
	}
	target := into.Addr().Interface()
	switch into.Kind() {
	case reflect.String:
		into.SetString(node.Value)
	case reflect.Bool:
		if node.Tag != "!!bool" {
			return mismatch(node, field, "true or false")
		}
		return node.Decode(target)
	case reflect.Int:
		if node.Tag != "!!int" || node.Decode(target) != nil {
			return mismatch(node, field, "a whole number")
		}
	case reflect.Float64:
		number, err := strconv.ParseFloat(node.Value, 64)
		if err != nil || node.Tag == "!!str" {
			return mismatch(node, field, "a number")
		}
		into.SetFloat(number)
	default:
		return fmt.Errorf("%s is not allowed in a file", field)
	}
	return nil
}

// eachPair calls do for each pair of a mapping. It refuses keys that are not text, and repeated keys.
func eachPair(node *yaml.Node, field string, do func(key, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return mismatch(node, field, "a mapping of names to values")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return mismatch(key, field, "a name")
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: %s is set twice", key.Line, join(field, key.Value))
		}
		seen[key.Value] = true
		if err := do(key, node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func unknownField(key *yaml.Node, name, parent string, fields []string) error {
	e := core.Errorf(core.KindUsage, "launch", "", "line %d: unknown field %q", key.Line, name)
	if strings.HasPrefix(parent, "secrets[") && key.Value == "value" {
		return e.WithHint("a spec file holds no secrets: remove the value, and set the variable at the launch")
	}
	if near := core.Nearest(key.Value, fields); near != "" {
		return e.WithHint("did you mean %q?", join(parent, near))
	}
	return e
}

func mismatch(node *yaml.Node, field, want string) error {
	if field == "" {
		return fmt.Errorf("line %d: expected %s", node.Line, want)
	}
	return fmt.Errorf("line %d: %s: expected %s", node.Line, field, want)
}

// at adds the line and the field to the error of a value's type.
func at(node *yaml.Node, field string, err error) error {
	if err == nil {
		return nil
	}
	return core.Errorf(core.KindUsage, "launch", "", "line %d: %s: %w", node.Line, field, err).
		WithHint("%s", core.HintOf(err))
}
