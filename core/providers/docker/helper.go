package docker

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// machines maps Go's name of a processor to its number in ELF programs.
func machines(arch string) elf.Machine {
	switch arch {
	case "amd64":
		return elf.EM_X86_64
	case "arm64":
		return elf.EM_AARCH64
	case "arm":
		return elf.EM_ARM
	case "riscv64":
		return elf.EM_RISCV
	case "ppc64le":
		return elf.EM_PPC64
	case "s390x":
		return elf.EM_S390
	}
	return elf.EM_NONE
}

// guestPath finds the sb-guest for a processor. It uses the configured path, or else searches beside this program and
// in PATH for "sb-guest" and "sb-guest-linux-ARCH".
func (p *Provider) guestPath(arch string) (string, error) {
	names := []string{"sb-guest-linux-" + arch, "sb-guest"}
	var candidates []string
	if p.opts.Guest != "" {
		candidates = []string{p.opts.Guest}
	} else {
		if self, err := os.Executable(); err == nil {
			if resolved, err := filepath.EvalSymlinks(self); err == nil {
				for _, name := range names {
					candidates = append(candidates, filepath.Join(filepath.Dir(resolved), name))
				}
			}
		}
		for _, name := range names {
			if found, err := exec.LookPath(name); err == nil {
				candidates = append(candidates, found)
			}
		}
	}
	var wrong error
	for _, candidate := range candidates {
		f, err := elf.Open(candidate)
		if err != nil {
			continue
		}
		dynamic := slices.ContainsFunc(f.Progs, func(prog *elf.Prog) bool { return prog.Type == elf.PT_INTERP })
		machine := f.Machine
		_ = f.Close()
		switch {
		case machine != machines(arch):
			wrong = core.Errorf(
				core.KindUnavailable, "docker", "", "%s is built for another processor than the engine's %s", candidate, arch,
			)
		case dynamic:
			wrong = core.Errorf(
				core.KindUnavailable, "docker", "", "%s is dynamically linked, and a container may have no dynamic linker",
				candidate,
			)
		default:
			return candidate, nil
		}
	}
	e := core.Errorf(core.KindUnavailable, "docker", "", "sb's helper sb-guest for linux/%s is missing", arch)
	if wrong != nil {
		e.Err = wrong
	}
	return "", e.WithHint(
		"build it beside sb: CGO_ENABLED=0 GOOS=linux GOARCH=%s go build -o sb-guest-linux-%s ./cmd/sb-guest", arch, arch,
	)
}
