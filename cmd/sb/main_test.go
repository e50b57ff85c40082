package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sb": main, "sb-broken": broken})
}

// broken is sb with a bug: at the signal USR1 it panics in a separate goroutine. At USR2 its report is long, with the
// traces of many goroutines.
func broken() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		if <-signals == syscall.SIGUSR2 {
			debug.SetTraceback("all")
			for range 3000 {
				go func() { select {} }()
			}
		}
		panic("a bug in a provider")
	}()
	main()
}

// TestScript runs the stories below testdata/script with the real program. Each has its own home, state and
// configuration.
func TestScript(t *testing.T) {
	// Here and not in TestMain, because the scripts' sb runs TestMain, too, and finds the programs by its configuration.
	remove, err := programtest.Build("sb-runtime", "sb-guest")
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(programtest.Dir(), "sb-runtime")
	commands := terminalCommands()
	commands["engine"] = useEngine
	commands["dropimages"] = dropImages
	commands["legacybuild"] = legacyBuild
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Getuid() == 0, nil
			case "engine":
				return len(engines()) > 0, nil
			case "venv": // Debian has Python without the package python3-venv
				return exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import ensurepip").Run() == nil, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		Cmds: commands,
		Setup: func(env *testscript.Env) error {
			for _, dir := range []string{"home", "state", "runtime", "config"} {
				if err := os.Mkdir(env.WorkDir+"/"+dir, 0o700); err != nil {
					return err
				}
			}
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/runtime")
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race runtime sleeps a second at each exit
			env.Setenv("NO_COLOR", "1")
			env.Setenv("XDG_CACHE_HOME", env.WorkDir+"/cache")
			env.Setenv("SB_LOCAL_RUNTIME", runtime)
			env.Setenv("SB_LOCAL_SPARES", "0") // one would outlive the story
			// A story that is not about an engine must not find the one of this machine.
			env.Setenv("SB_DOCKER_HOST", "none")
			env.Values[terminalKey{}] = &terminalHolder{env: func() []string { return env.Vars }}
			// A story that fails must leave no sandbox behind, either.
			env.Defer(func() { endAll(env) })
			return nil
		},
	})
}

// engines are the addresses of the container engines to test with, as NAME=ADDRESS.
func engines() []string { return strings.Fields(os.Getenv("SB_TEST_ENGINES")) }

// useEngine selects the engine for the rest of a story: the first one with a given name, or the first available one. It
// loads the test image; $IMAGE is the image's name.
func useEngine(ts *testscript.TestScript, _ bool, args []string) {
	for _, engine := range engines() {
		name, host, _ := strings.Cut(engine, "=")
		if len(args) > 0 && args[0] != name {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ts.Check(dockertest.Load(ctx, host))
		ts.Setenv("SB_DOCKER_HOST", host)
		ts.Setenv("SB_DOCKER_IMAGE", dockertest.Image)
		ts.Setenv("SB_DOCKER_GUEST", filepath.Join(filepath.Dir(ts.Getenv("SB_LOCAL_RUNTIME")), "sb-guest"))
		ts.Setenv("IMAGE", dockertest.Image)
		ts.Setenv("SB_PROVIDER", "docker")
		// Each story has its own name and app, because others may use the engine. It ends its sandboxes there.
		own := core.NewName()
		ts.Setenv("NAME", own)
		ts.Setenv("SB_DEFAULTS_APP", own)
		ts.Defer(func() { _ = ts.Exec("sb", "terminate", "--app", own, "--yes") })
		return
	}
	ts.Fatalf("there is no engine %v", args)
}

// dropImages removes images from the engine in use.
func dropImages(ts *testscript.TestScript, _ bool, names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(dockertest.Remove(ctx, ts.Getenv("SB_DOCKER_HOST"), names...))
}

// legacyBuild builds a directory with the builder that Docker had before BuildKit, and names the image.
func legacyBuild(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(dockertest.LegacyBuild(ctx, ts.Getenv("SB_DOCKER_HOST"), ts.MkAbs(args[0]), args[1]))
}

// endAll terminates the sandboxes that a story has launched and not ended.
func endAll(env *testscript.Env) {
	states, err := filepath.Glob(env.WorkDir + "/state/sb/local/sandboxes/*")
	if err != nil || len(states) == 0 {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(self), filepath.Base(self)), "terminate", "--all", "--yes")
	cmd.Args[0] = "sb"
	cmd.Env = env.Vars
	_ = cmd.Run()
}
