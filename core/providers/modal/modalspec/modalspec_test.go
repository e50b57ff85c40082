package modalspec_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

func TestCheck(t *testing.T) {
	good := core.Spec{
		Modal: modalspec.Section{Runtime: "vm", Buckets: []modalspec.Bucket{{Name: "a", Target: "/a"}}}.JSON(),
	}
	for _, spec := range []core.Spec{{}, good, {Modal: []byte("{}")}} {
		if err := modalspec.Check(spec); err != nil {
			t.Errorf("%s: %v", spec.Modal, err)
		}
	}
	for name, m := range map[string]modalspec.Section{
		"unknown runtime":       {Runtime: "wasm"},
		"control character":     {Cloud: "a\x00"},
		"limit below request":   {CPULimit: 1},
		"memory below request":  {MemoryLimit: core.MiB},
		"bucket without target": {Buckets: []modalspec.Bucket{{Name: "data"}}},
		"prefix of a bucket":    {Buckets: []modalspec.Bucket{{Name: "a", Target: "/a", Prefix: "x"}}},
		"payer without secret":  {Buckets: []modalspec.Bucket{{Name: "a", Target: "/a", RequesterPays: true}}},
		"headers of no domain":  {Headers: []modalspec.HeaderReplacement{{Headers: map[string]string{"A": "b"}}}},
	} {
		if err := modalspec.Check(core.Spec{CPU: 2, Memory: core.GiB, Modal: m.JSON()}); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`{"region": "us"}`, `{"regions": "us"}`, `[]`, `"x"`, `{`} {
		if err := modalspec.Check(core.Spec{Modal: []byte(bad)}); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestOf(t *testing.T) {
	want := modalspec.Section{
		Regions: []string{"us-east"}, MemoryLimit: core.GiB, Experimental: map[string]string{"a": "true"},
	}
	got, err := modalspec.Of(core.Spec{Modal: want.JSON()})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got, err := modalspec.Of(core.Spec{Modal: []byte(`{"oidc": true, "later": 1}`)}); err != nil || !got.OIDC {
		t.Errorf("a section of a newer sb is %+v, %v", got, err)
	}
	if _, err := modalspec.Of(core.Spec{Modal: []byte(`{"oidc": 1}`)}); !errors.Is(err, core.KindUsage) {
		t.Errorf("a section of other types: %v", err)
	}
}
