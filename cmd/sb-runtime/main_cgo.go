//go:build linux && cgo

// Command sb-runtime, where a C compiler is installed and nothing else was asked for, is linked with the C
// library. gVisor does not run in such a program: it executes itself once more in an empty root,
// where no dynamic linker is. So this variant does not link it and does one thing: it builds
// the helpers again without the C library, from the source it was built from.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := errors.New("sb-runtime is started by sb; it has no use of its own")
	if len(os.Args) == 2 && os.Args[1] == "rebuild" {
		err = rebuild(ctx)
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rebuild replaces this program and sb-guest beside it. Until both are built nothing changes.
func rebuild(ctx context.Context) (err error) {
	_, source, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(source) {
		return errors.New("it was built with -trimpath and does not know its source")
	}
	module := filepath.Dir(filepath.Dir(filepath.Dir(source)))
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its source, %s, is not there any more", module)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), ".sb-runtime-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	//nolint:gosec // a directory made here
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/sb-runtime", "./cmd/sb-guest")
	build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	// The one that is looked at goes last.
	return errors.Join(
		os.Rename(filepath.Join(dir, "sb-guest"), filepath.Join(filepath.Dir(self), "sb-guest")),
		os.Rename(filepath.Join(dir, "sb-runtime"), self),
	)
}
