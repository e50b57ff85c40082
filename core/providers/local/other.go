//go:build !linux

package local

import "github.com/seed-0724f904/sb/core"

// New fails: gVisor is a Linux kernel for Linux hosts.
func New(Options) (core.Provider, error) {
	return nil, core.Errorf(core.KindUnavailable, "local", "", "sandboxes on this machine need Linux").
		WithHint("use another provider: sb provider ls")
}
