package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/transfer"
)

// forgeries maps the answers of testdata/forge to a part of the copy's error.
var forgeries = map[string]string{
	"stat-parent":     "it describes another path",
	"stat-other":      "it describes another path",
	"stat-negative":   "the size is negative",
	"stat-link":       "only a symbolic link has a target",
	"export-parent":   "the sandbox sent a path that leads outside",
	"export-absolute": "the sandbox sent a path that leads outside",
	"export-link":     "the sandbox sent a path that goes through the link up",
	"export-hard":     "the sandbox sent a path that leads outside",
}

// forgeTries bounds the copies for each forgery. Root inside must act between the start of sb-guest and the call that
// makes it untraceable. It stops and continues sb-guest there, so the first try succeeds in most cases.
const forgeTries = 30

// Root inside takes over sb-guest and forges its answers, while files are copied to this machine and to another
// sandbox. No file is written beside the target, and the error names the fault of the answer.
func TestForgedAnswers(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		program, p := buildForge(t), e.open(t, nil)
		evil, other := box(t, p, nil).ID, box(t, p, nil).ID
		if out, _ := sh(
			t, p, evil, "for f in /.sb-*/bin/sb-guest; do if { : > $f || rm -f $f || mv ${f%/*} /tmp/bin; } 2>&1; "+
				"then echo REPLACED; fi; done",
		); strings.Contains(out, "REPLACED") {
			t.Errorf("root inside replaced sb-guest: %s", out)
		}
		said := forge(t, p, evil, program)
		for name, why := range forgeries {
			from := transfer.Endpoint{Sandbox: evil, Path: "/data/" + name}
			t.Run("pull/"+name, func(t *testing.T) {
				dir := t.TempDir()
				target, bashrc := filepath.Join(dir, "target"), filepath.Join(dir, ".bashrc")
				if err := errors.Join(os.Mkdir(target, 0o700), os.WriteFile(bashrc, []byte("mine"), 0o600)); err != nil {
					t.Fatal(err)
				}
				copyForged(t, p, from, transfer.Endpoint{Path: target}, why)
				entries, err := os.ReadDir(dir)
				content, readErr := os.ReadFile(bashrc)
				if err := errors.Join(err, readErr); err != nil || len(entries) != 2 || string(content) != "mine" {
					t.Errorf("beside the target there is %v, .bashrc is %q, %v", entries, content, err)
				}
				onlyGenuine(t, target, name)
			})
			t.Run("cp/"+name, func(t *testing.T) {
				before := filesAfter(t, p, other, "cd /root; rm -rf target; mkdir target; echo mine > .bashrc")
				copyForged(t, p, from, transfer.Endpoint{Sandbox: other, Path: "/root/target"}, why)
				after := filesAfter(t, p, other, "rm -rf /root/target/"+name)
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("the other sandbox has changed:\n%s", diff)
				}
				if content, _ := sh(t, p, other, "cat /root/.bashrc"); content != "mine\n" {
					t.Errorf("its .bashrc is %q", content)
				}
			})
		}
		forged := slices.DeleteFunc(said(), func(line string) bool { return !strings.HasPrefix(line, "forged ") })
		t.Logf("%d answers were forged", len(forged))
		if len(forged) == 0 {
			t.Error("root inside forged no answer, so nothing was tested")
		}
	})
}

// copyForged copies until a forged answer arrives, forgeTries times at most. A copy succeeds only with genuine answers.
func copyForged(t *testing.T, p *Provider, from, to transfer.Endpoint, why string) {
	t.Helper()
	for range forgeTries {
		_, err := transfer.Copy(t.Context(), p, transfer.Request{From: from, To: to})
		switch {
		case err == nil:
		case strings.Contains(err.Error(), why):
			return
		default:
			t.Fatalf("the error is %v, want %q", err, why)
		}
	}
}

// onlyGenuine checks that a directory is empty or has the copy of the sandbox's real files.
func onlyGenuine(t *testing.T, target, name string) {
	t.Helper()
	var found []string
	err := filepath.WalkDir(target, func(path string, _ os.DirEntry, err error) error {
		found = append(found, strings.TrimPrefix(path, target))
		return err
	})
	genuine := []string{"", "/" + name, "/" + name + "/real"}
	if err != nil || !slices.Equal(found, genuine) && !slices.Equal(found, genuine[:1]) {
		t.Errorf("the target has %q, %v", found, err)
	}
}

// filesAfter runs a line of shell in a sandbox and returns the sorted names of all its files.
func filesAfter(t *testing.T, p *Provider, id, line string) []string {
	t.Helper()
	out, code := sh(t, p, id, line+"; find / -xdev")
	if code != 0 {
		t.Fatal(out)
	}
	names := slices.DeleteFunc(strings.Split(out, "\n"), func(name string) bool {
		return strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/.sb-")
	})
	slices.Sort(names)
	return names
}

// buildForge builds the attacker's program for a container without libraries.
func buildForge(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "forge")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/forge")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// forge starts the attacker in a sandbox, beside the directories to copy. said stops it and returns its lines.
func forge(t *testing.T, p *Provider, id, program string) (said func() []string) {
	t.Helper()
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := p.WriteFile(t.Context(), id, "/tmp/forge", f, core.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	for name := range forgeries {
		if out, code := sh(t, p, id, "mkdir -p /data/"+name+" && echo real > /data/"+name+"/real"); code != 0 {
			t.Fatal(out)
		}
	}
	r, w := io.Pipe()
	process, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"/tmp/forge"}, Stdout: w, Stderr: w})
	if err != nil {
		t.Fatal(err)
	}
	ready, all := make(chan error, 1), make(chan []string, 1)
	go func() {
		first := make([]byte, len("ready\n"))
		_, err := io.ReadFull(r, first)
		ready <- err
		rest, _ := io.ReadAll(r)
		all <- strings.Split(strings.TrimSpace(string(rest)), "\n")
	}()
	said = sync.OnceValue(func() []string {
		_ = process.Signal(context.Background(), 9)
		_, _ = process.Wait(context.Background())
		_ = errors.Join(process.Close(), w.Close())
		return providertest.Receive(t, all)
	})
	t.Cleanup(func() { said() })
	if err := providertest.Receive(t, ready); err != nil {
		t.Fatal(err)
	}
	return said
}
