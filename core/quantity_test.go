package core

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "1": 1, "512MiB": 512 * MiB, "1.5G": 3 * GiB / 2, "2g": 2 * GiB, "100MB": 100_000_000, "1T": TiB,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-1", "x", "1X", "1e400", "0x10", "99999999999999TiB", "NaN", "Inf", "1_000", "MiB",
	} {
		if got, err := ParseBytes(text); !errors.Is(err, KindUsage) {
			t.Errorf("%q is %d, %v; want an error of kind usage", text, got, err)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"1", "1.5GiB", "-3", "1e3", "9223372036854775807", "..", "12 34"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseBytes(text)
		if err != nil && !errors.Is(err, KindUsage) {
			t.Errorf("%q: %v", text, err)
		}
		if n < 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "2h30m": 150 * time.Minute, "15m": 15 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || time.Duration(got) != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5s", "x", "1y", "1e30", "NaN", "0x5"} {
		if got, err := ParseDuration(text); !errors.Is(err, KindUsage) {
			t.Errorf("%q is %v, %v; want an error of kind usage", text, got, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1", "1h", "-3s", "1e3", "9999999999999h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); d < 0 || err != nil && !errors.Is(err, KindUsage) {
			t.Errorf("%q is %v, %v", text, d, err)
		}
	})
}

func TestParseGPU(t *testing.T) {
	for text, want := range map[string]GPU{"": {}, "H100": {"H100", 1}, "a100-80gb:4": {"A100-80GB", 4}} {
		if got, err := ParseGPU(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{":", ":2", "H100:0", "H100:-1", "H100:x", "H100:999999999999"} {
		if _, err := ParseGPU(text); !errors.Is(err, KindUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSpecSurvivesJSON(t *testing.T) {
	spec := Spec{
		Name: "n", Memory: 512 * MiB, Timeout: Duration(90 * time.Minute), GPU: GPU{"H100", 8},
		Env:   map[string]string{"A": "b"},
		Ports: []Port{{Sandbox: 80}}, Network: Network{Mode: NetworkNone}, Command: []string{"x"},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(text) || back.GPU != spec.GPU || back.Memory != spec.Memory ||
		back.Timeout != spec.Timeout {
		t.Errorf("%s came back as %s, %v", text, again, err)
	}
}
