package configs

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

func TestSetModal(t *testing.T) {
	spec := core.Spec{Modal: modalspec.Section{Cloud: "aws", Proxy: "office"}.JSON()}
	err := SetModal(&spec, []string{
		"regions=us-east, eu", "cloud=gcp", "cpu_limit=4", "memory_limit=4GiB", "oidc=true",
		"experimental.fast=true", "experimental.level=3",
		"buckets=[{name: data, target: /data, read_only: true}]",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := modalspec.Section{
		Regions: []string{"us-east", "eu"}, Cloud: "gcp", Proxy: "office", CPULimit: 4, MemoryLimit: 4 * core.GiB, OIDC: true,
		Experimental: map[string]string{"fast": "true", "level": "3"},
		Buckets:      []modalspec.Bucket{{Name: "data", Target: "/data", ReadOnly: true}},
	}.JSON()
	if diff := cmp.Diff(string(want), string(spec.Modal)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"regions", "=x", "region=x", "cpu_limit=lots", "buckets=data", "oidc=maybe", "cloud.x=1", "regions=[",
		"buckets=[{secret_value: x}]",
	} {
		if err := SetModal(&core.Spec{}, []string{bad}); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
