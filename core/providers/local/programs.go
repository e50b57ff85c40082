//go:build linux

package local

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed-0724f904/sb/core"
)

// programs are the paths of the helpers.
type programs struct{ runtime, guest string }

// programs finds sb-runtime at the configured path. Without one it looks beside this program, then in PATH. sb-guest
// must be beside sb-runtime.
func (p *Provider) programs() (programs, error) {
	const name, guest = "sb-runtime", "sb-guest"
	var tried []string
	if p.opts.Runtime != "" {
		tried = append(tried, p.opts.Runtime)
	} else {
		if self, err := os.Executable(); err == nil {
			if resolved, err := filepath.EvalSymlinks(self); err == nil {
				tried = append(tried, filepath.Join(filepath.Dir(resolved), name))
			}
		}
		if found, err := exec.LookPath(name); err == nil {
			tried = append(tried, found)
		}
	}
	for _, runtime := range tried {
		if beside := filepath.Join(filepath.Dir(runtime), guest); executable(runtime) && executable(beside) {
			return programs{runtime, beside}, nil
		}
	}
	e := core.Errorf(core.KindUnavailable, "local", "", "sb's helpers %s and %s are missing", name, guest)
	return programs{}, e.WithHint(
		"install them beside sb: CGO_ENABLED=0 go install ./cmd/... ; or name sb-runtime's path in SB_LOCAL_RUNTIME",
	)
}

// usable finds the helpers. KindUnavailable: one is linked with the C library, and gVisor does not run in such a
// program.
func (p *Provider) usable() (programs, error) {
	found, err := p.programs()
	if err != nil || !found.dynamic() {
		return found, err
	}
	return found, core.Errorf(core.KindUnavailable, "local", "",
		"%s is linked with the C library, which gVisor does not support",
		found.runtime).WithHint("build it again, in sb's source: CGO_ENABLED=0 go install ./cmd/...")
}

// Guest returns the path of the sb-guest that sandboxes of this provider use.
func (p *Provider) Guest() (string, error) {
	found, err := p.usable()
	return found.guest, err
}

// dynamic reports whether a helper needs a dynamic linker.
func (f programs) dynamic() bool { return dynamic(f.runtime) || dynamic(f.guest) }

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// dynamic reports whether a program needs a dynamic linker (elf(5), PT_INTERP). A Go program does if it was built with
// a C compiler.
func dynamic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false // the start reports the error
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}

// Check implements core.Provider.
func (p *Provider) Check(context.Context) error {
	if _, err := p.usable(); err != nil {
		return err
	}
	if err := p.checkCacheDir("check"); err != nil {
		return err
	}
	if why, fix := namespacesOff(); why != "" {
		return core.Errorf(core.KindUnavailable, "local", "", "%s", why).WithHint("%s", fix)
	}
	return nil
}
