package core_test

import (
	"reflect"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestParseMirrors(t *testing.T) {
	want := map[string][]string{"docker.io": {"a.example:5000", "b.example/hub"}, "ghcr.io": {"[::1]:5000"}}
	got, err := core.ParseMirrors(" docker.io=a.example:5000,b.example/hub   ghcr.io=[::1]:5000")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{
		"docker.io", "=a.example", "docker.io=", "docker.io=a.example,", "docker.io=a.example/", "docker=a.example",
		"docker.io=mirror", "docker.io=http://a.example", "docker.io=a.example docker.io=b.example", "a b=c.example",
		"docker.io=me@a.example", "docker.io=a.example/x:tag", "a/b.example=c.example", "docker.io=:5000",
	} {
		if got, err := core.ParseMirrors(text); core.KindOf(err) != core.KindUsage || err == nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestParseRegistries(t *testing.T) {
	got, err := core.ParseRegistries("localhost 10.0.0.5:5000  registry.example ")
	if err != nil || !reflect.DeepEqual(got, []string{"localhost", "10.0.0.5:5000", "registry.example"}) {
		t.Errorf("%v, %v", got, err)
	}
	if !(core.Registries{Insecure: got}).Trusts("10.0.0.5:5000") || (core.Registries{Insecure: got}).Trusts("10.0.0.5") {
		t.Error("trust is for a host with its port")
	}
	for _, text := range []string{"http://a.example", "a", "a.example/path", "a.example,b.example", "me@a.example"} {
		if got, err := core.ParseRegistries(text); core.KindOf(err) != core.KindUsage || err == nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
