package core_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// Each field of Spec has one row with its name in JSON, and each row refers to that field.
func TestFieldsAreThoseOfSpec(t *testing.T) {
	var spec core.Spec
	var names []string
	value := reflect.ValueOf(&spec).Elem()
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		if got := core.FieldNamed(name).Ref(&spec); got != value.Field(i).Addr().Interface() {
			t.Errorf("the row of %s refers to another field", name)
		}
	}
	flags := map[string]string{}
	for _, f := range core.Fields() {
		if !slices.Contains(names, f.Name) {
			t.Errorf("Spec has no field %s", f.Name)
		}
		if other, twice := flags[f.Flag]; twice && f.Flag != "" {
			t.Errorf("%s and %s have the flag --%s", f.Name, other, f.Flag)
		}
		flags[f.Flag] = f.Name
		if f.Doc == "" || len(f.Help()) > 120 {
			t.Errorf("%s: the description has %d characters: %q", f.Name, len(f.Help()), f.Doc)
		}
	}
}

func TestFieldFill(t *testing.T) {
	idle := core.FieldNamed("idle_timeout")
	from := core.Spec{IdleTimeout: core.Duration(60)}
	open, set := core.Spec{}, core.Spec{IdleTimeout: core.NoTimeout}
	idle.Fill(&open, from)
	idle.Fill(&set, from)
	if open.IdleTimeout != 60 || set.IdleTimeout != core.NoTimeout {
		t.Errorf("an open field became %v, a set one %v", open.IdleTimeout, set.IdleTimeout)
	}
	if idle.Clear(&open); !idle.IsZero(open) {
		t.Errorf("cleared: %v", open.IdleTimeout)
	}
}
