package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sb": main})
}

// TestScript runs the stories below testdata/script with the real program. Each
// has a home, a state and a runtime directory of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
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
			return nil
		},
	})
}
