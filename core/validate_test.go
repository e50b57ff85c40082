package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
)

func TestSpecValidate(t *testing.T) {
	good := Spec{
		Name: "a.b-c_9", App: "app", Image: "host", CPU: 1.5, Memory: 64 * MiB, Disk: GiB, Workdir: "/app",
		Env: map[string]string{"A": "1"}, Ports: []Port{{Host: 0, Sandbox: 80}, {Host: 0, Sandbox: 81}},
		Network: Network{Mode: NetworkAllow, Allow: []string{"pypi.org", "*.pypi.org", "10.0.0.0/8"}},
		Command: []string{"true"},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Spec){
		"name with a blank":       func(s *Spec) { s.Name = "two words" },
		"name with a slash":       func(s *Spec) { s.Name = "a/b" },
		"name too long":           func(s *Spec) { s.Name = strings.Repeat("x", 64) },
		"name in capitals":        func(s *Spec) { s.Name = "Name" },
		"emoji":                   func(s *Spec) { s.Name = "🙂" },
		"two images":              func(s *Spec) { s.Snapshot = "x" },
		"control in image":        func(s *Spec) { s.Image = "a\nb" },
		"negative cpu":            func(s *Spec) { s.CPU = -1 },
		"cpu that is no number":   func(s *Spec) { s.CPU = math.NaN() },
		"tiny memory":             func(s *Spec) { s.Memory = 1 },
		"huge disk":               func(s *Spec) { s.Disk = math.MaxInt64 },
		"negative processes":      func(s *Spec) { s.Processes = -1 },
		"lifetime of centuries":   func(s *Spec) { s.Timeout = math.MaxInt64 },
		"relative workdir":        func(s *Spec) { s.Workdir = "work" },
		"workdir with NUL":        func(s *Spec) { s.Workdir = "/a\x00b" },
		"user of two lines":       func(s *Spec) { s.User = "root\nx" },
		"volume of two lines":     func(s *Spec) { s.Volumes = []Volume{{Source: "v", Target: "/x\ny"}} },
		"version of two lines":    func(s *Spec) { s.Python = "3.12\nRUN x" },
		"image for a version":     func(s *Spec) { s.Python = "3@sha256:0" },
		"variable with =":         func(s *Spec) { s.Env = map[string]string{"A=B": ""} },
		"NUL in a value":          func(s *Spec) { s.Env = map[string]string{"A": "\x00"} },
		"secret that is variable": func(s *Spec) { s.Secrets = []Secret{{Name: "A"}} },
		"port 0":                  func(s *Spec) { s.Ports = []Port{{Sandbox: 0}} },
		"port twice":              func(s *Spec) { s.Ports = []Port{{Host: 8000, Sandbox: 80}, {Host: 8000, Sandbox: 81}} },
		"unknown network":         func(s *Spec) { s.Network = Network{Mode: "some"} },
		"allow-list without mode": func(s *Spec) { s.Network.Mode = NetworkAll },
		"URL in allow-list":       func(s *Spec) { s.Network.Allow = []string{"https://pypi.org"} },
		"NUL in an argument":      func(s *Spec) { s.Command = []string{"a", "\x00"} },
		"argument of bytes":       func(s *Spec) { s.Command = []string{"cat", "caf\xe9"} },
		"value of bytes":          func(s *Spec) { s.Env = map[string]string{"A": "caf\xe9"} },
		"secret of bytes":         func(s *Spec) { s.Secrets = []Secret{{Name: "KEY", Value: NewSecretValue("\xff")}} },
		"label without a key":     func(s *Spec) { s.Labels = map[string]string{"": "x"} },
		"unknown protocol":        func(s *Spec) { s.Ports = []Port{{Sandbox: 80, Protocol: "udp"}} },
		"negative shm":            func(s *Spec) { s.ShmSize = -1 },
		"relative tmpfs":          func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "scratch"}} },
		"tmpfs at the root":       func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "/x/.."}} },
		"tmpfs below proc":        func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "/proc/self"}} },
		"tmpfs with options":      func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "/x,size=1"}} },
		"huge tmpfs":              func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "/x", Size: 65 * TiB}} },
		"two tmpfs":               func(s *Spec) { s.Tmpfs = []Tmpfs{{Target: "/x"}, {Target: "/x/"}} },
		"tmpfs over a volume": func(s *Spec) {
			s.Volumes, s.Tmpfs = []Volume{{Source: "v", Target: "/x"}}, []Tmpfs{{Target: "/x"}}
		},
		"dns name":              func(s *Spec) { s.DNS = []string{"dns.example.com"} },
		"dns without a network": func(s *Spec) { s.DNS, s.Network.Mode = []string{"192.0.2.53"}, NetworkNone },
		"inbound domain":        func(s *Spec) { s.Inbound = []string{"example.com"} },
		"probe of nothing":      func(s *Spec) { s.Ready = &Probe{} },
		"probe of two things":   func(s *Spec) { s.Ready = &Probe{TCP: 1, Exec: []string{"true"}} },
		"probe of port 70000":   func(s *Spec) { s.Ready = &Probe{TCP: 70000} },
		"probe without a pause": func(s *Spec) { s.Ready = &Probe{TCP: 1, Interval: 1} },
		"modal that is a text":  func(s *Spec) { s.Modal = []byte(`"x"`) },
		"modal that is no JSON": func(s *Spec) { s.Modal = []byte(`{`) },
		"modal that is null":    func(s *Spec) { s.Modal = []byte(`null`) },
		"option as a package":   func(s *Spec) { s.Pip = []string{"--index-url=x"} },
	} {
		spec := good.Clone()
		change(&spec)
		if err := spec.Validate(); !errors.Is(err, KindUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewNamesAndIDsAreValid(t *testing.T) {
	for range 1000 {
		if err := ValidateName("name", NewName()); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := NewID("loc-"), NewID("loc-"); a == b || len(a) != 12 {
		t.Errorf("ids are %s and %s", a, b)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"defaults.memory", "defaults.disk", "provider"}
	for word, want := range map[string]string{
		"defaults.memroy": "defaults.memory", "provder": "provider", "something else": "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	spec := Spec{Secrets: []Secret{{Name: "TOKEN", Value: NewSecretValue("hunter2")}}}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", spec.Secrets[0].Value, "spec", spec)
	for how, shown := range map[string]string{
		"json": string(text), "slog": log.String(), "%v": fmt.Sprintf("%v", spec), "%+v": fmt.Sprintf("%+v", spec),
		"%#v": fmt.Sprintf("%#v", spec),
		"%s":  fmt.Sprintf("%s", spec.Secrets[0].Value), "%x": fmt.Sprintf("%x", spec.Secrets[0].Value),
		"error": Errorf(KindUsage, "op", "x", "%v", spec).Error(),
	} {
		if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e746572") {
			t.Errorf("%s shows the secret: %s", how, shown)
		}
	}
	if !spec.Redacted().Secrets[0].Value.Empty() || spec.Secrets[0].Value.Reveal() != "hunter2" {
		t.Error("Redacted changed the wrong one")
	}
}
