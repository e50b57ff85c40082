//go:build linux

package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// An engine passes NVIDIA's cards to a container through NVIDIA's hook. This machine has no card, but the test checks
// the hook's request.
func TestGPU(t *testing.T) {
	d := newDaemon(t, "dockerd")
	hook := "#!/bin/sh\ncat > " + d.dir + "/hooked\n"
	bin := filepath.Join(d.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "nvidia-container-runtime-hook"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	startDocker(t, d, "--add-runtime", "nvidia=/usr/sbin/runc")
	d.load(t)
	p := d.open(t, func(opts *Options) { opts.GPUs = core.GPU{Type: "H100", Count: 4} })
	if caps := p.Capabilities(); !caps.Can(core.CapGPU) || caps.GPUs["H100"] != 4 {
		t.Errorf("the capabilities are %+v", caps)
	}
	sb := box(t, p, func(spec *core.Spec) { spec.GPU = core.GPU{Type: "H100", Count: 2} })
	if out, _ := sh(t, p, sb.ID, "echo $NVIDIA_VISIBLE_DEVICES"); out != "0,1\n" {
		t.Errorf("the cards are %q", out)
	}
	if text, err := os.ReadFile(d.dir + "/hooked"); err != nil || len(text) == 0 {
		t.Errorf("the hook got %q, %v", text, err)
	}
}

// A launch refuses a GPU that the configuration names and the engine cannot provide. Nothing is created.
func TestGPURefused(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, func(opts *Options) { opts.GPUs = core.GPU{Type: "T4", Count: 1} })
		_, err := p.Launch(
			t.Context(), core.Spec{Name: core.NewName(), GPU: core.GPU{Type: "T4", Count: 1}}, core.Lease{}, nil,
		)
		wantKind(t, err, core.KindUnsupported)
	})
}

// Cards with names are requested by name.
func TestGPUNames(t *testing.T) {
	f := engine.Facts{CDI: []string{engine.CDIKind + "0", engine.CDIKind + "1", engine.CDIKind + "2"}}
	if r := gpus(f, 2); r.Driver != "cdi" || len(r.DeviceIDs) != 2 || r.DeviceIDs[1] != engine.CDIKind+"1" {
		t.Errorf("the request is %+v", r)
	}
}
