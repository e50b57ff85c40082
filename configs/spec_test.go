package configs

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestReadSpec(t *testing.T) {
	got, err := ReadSpec("spec.yaml", strings.NewReader(`
# what YAML would read as numbers, times and truths stays as it is written
python: 3.10
name: 012
env: {PORT: 8080, DEBUG: on, EMPTY: , DAY: 2026-01-02}
cpu: 2
memory: 512MiB
disk: 1073741824
timeout: 90
idle_timeout: 1h30m
gpu: h100:2
persist: true
network: &net {mode: allow, allow: [pypi.org]}
ports: [{host: 8080, port: 80}]
secrets: [{name: TOKEN}, {name: KEY, ref: stored}]
command: [sleep, 10]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := core.Spec{
		Python: "3.10", Name: "012", Env: map[string]string{"PORT": "8080", "DEBUG": "on", "EMPTY": "", "DAY": "2026-01-02"},
		CPU: 2, Memory: 512 * core.MiB, Disk: core.GiB,
		Timeout: core.Duration(90 * time.Second), IdleTimeout: core.Duration(90 * time.Minute),
		GPU: core.GPU{Type: "H100", Count: 2}, Persist: true,
		Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org"}},
		Ports:   []core.Port{{Host: 8080, Sandbox: 80}},
		Secrets: []core.Secret{{Name: "TOKEN"}, {Name: "KEY", Ref: "stored"}},
		Command: []string{"sleep", "10"},
	}
	sameSecret := cmp.Comparer(func(a, b core.SecretValue) bool { return a.Reveal() == b.Reveal() })
	if diff := cmp.Diff(want, got, sameSecret); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// The spec that sb inspect prints can be launched again.
func TestReadSpecReadsItsJSON(t *testing.T) {
	want := core.Spec{
		Name: "a", Memory: 3 * core.MiB, Timeout: core.Duration(time.Hour), GPU: core.GPU{Type: "T4", Count: 1},
		Env: map[string]string{"A": "b\n"}, Network: core.Network{Mode: core.NetworkNone},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSpec("-", strings.NewReader(string(text)))
	if err != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("%s is read as %+v, %v", text, got, err)
	}
}

func TestReadSpecRefuses(t *testing.T) {
	for text, want := range map[string][]string{
		"cpu: 1\nmemroy: 1G\n":                  {"line 2", "memroy", `did you mean "memory"`},
		"network:\n  mod: none\n":               {"line 2", "network.mod", "network.mode"},
		"secrets:\n- name: A\n  value: s3cret":  {"line 3", "secrets[0].value", "holds no secrets"},
		"memory: lots\n":                        {"line 1", "memory", "not a size", "512MiB"},
		"env: [a]\n":                            {"env", "a mapping of names to values"},
		"ports: [{port: http}]\n":               {"ports[0].port", "whole number"},
		"persist: maybe\n":                      {"persist", "true or false"},
		"cpu: two\n":                            {"cpu", "a number"},
		"pip: numpy\n":                          {"pip", "a list"},
		"name: {a: b}\n":                        {"name", "a single value"},
		"cpu: 1\ncpu: 2\n":                      {"line 2", "cpu", "twice"},
		"- a\n":                                 {"a mapping of names to values"},
		"a: [\n":                                {"YAML"},
		"cpu: 1\n---\ncpu: 2\n":                 {"more than one"},
		"gpu: T4:0\n":                           {"gpu", "TYPE"},
		"name: " + strings.Repeat("a", maxSpec): {"larger"},
	} {
		_, err := ReadSpec("spec.yaml", strings.NewReader(text))
		message := ""
		if err != nil {
			message = err.Error() + " " + core.HintOf(err)
		}
		for _, part := range append(want, "spec.yaml") {
			if !errors.Is(err, core.KindUsage) || !strings.Contains(message, part) {
				t.Errorf("%.40q: %q lacks %q", text, message, part)
			}
		}
		if strings.Contains(message, "s3cret") {
			t.Errorf("%q shows a secret", message)
		}
	}
}

func FuzzReadSpec(f *testing.F) {
	f.Add("name: a\nports: [{port: 1}]\nsecrets: [{name: A}]")
	f.Add("env: &e {A: b}\nlabels: *e\n<<: *e")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ReadSpec("spec.yaml", strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, core.KindUsage) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if spec.Validate() != nil {
			return
		}
		written, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadSpec("spec.json", strings.NewReader(string(written)))
		if err != nil {
			t.Fatalf("%q became %s: %v", text, written, err)
		}
		if rewritten, err := json.Marshal(again); err != nil || string(rewritten) != string(written) {
			t.Errorf("%q became %s, then %s: %v", text, written, rewritten, err)
		}
	})
}
