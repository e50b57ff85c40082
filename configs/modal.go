package configs

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// SetModal sets fields of spec.Modal from KEY=VALUE pairs and keeps the others. A KEY is a field's name in a spec file,
// or an entry of a field: "regions", "experimental.fast". A VALUE is YAML. For a list, a plain value is split at its
// commas. An error is core.KindUsage with the subject "--modal".
func SetModal(spec *core.Spec, pairs []string) error {
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return core.Errorf(core.KindUsage, "launch", "--modal", "%q: expected KEY=VALUE", pair).
				WithHint("the keys are %s", strings.Join(ModalKeys(), ", "))
		}
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) == 0 {
			return core.Errorf(core.KindUsage, "launch", "--modal", "%s: the value is not valid YAML", key)
		}
		section, err := modalspec.Of(*spec)
		if err != nil {
			return err
		}
		if err := setField(reflect.ValueOf(&section).Elem(), key, document.Content[0]); err != nil {
			return core.Errorf(core.KindUsage, "launch", "--modal", "%s: %w", key, err).WithHint("%s", core.HintOf(err))
		}
		spec.Modal = section.JSON()
	}
	return nil
}

// ModalKeys returns the names of the fields that SetModal sets.
func ModalKeys() []string {
	var keys []string
	for field := range reflect.TypeFor[modalspec.Section]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	return keys
}

// setField sets the field of a struct that key names.
func setField(into reflect.Value, key string, value *yaml.Node) error {
	name, entry, nested := strings.Cut(key, ".")
	at := slices.Index(ModalKeys(), name)
	if at < 0 {
		e := core.Errorf(core.KindUsage, "launch", "", "unknown field %q", name)
		if near := core.Nearest(name, ModalKeys()); near != "" {
			return e.WithHint("did you mean %q?", near)
		}
		return e.WithHint("the keys are %s", strings.Join(ModalKeys(), ", "))
	}
	field := into.Field(at)
	if nested {
		if field.Kind() != reflect.Map {
			return core.Errorf(core.KindUsage, "launch", "", "%s has no named entries", name)
		}
		if field.IsNil() {
			field.Set(reflect.MakeMap(field.Type()))
		}
		item := reflect.New(field.Type().Elem()).Elem()
		if err := fill(item, value, key); err != nil {
			return err
		}
		field.SetMapIndex(reflect.ValueOf(entry), item)
		return nil
	}
	if field.Kind() == reflect.Slice && value.Kind == yaml.ScalarNode {
		list := &yaml.Node{Kind: yaml.SequenceNode, Line: value.Line}
		for word := range strings.SplitSeq(value.Value, ",") {
			item := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(word), Line: value.Line}
			list.Content = append(list.Content, item)
		}
		value = list
	}
	return fill(field, value, key)
}
