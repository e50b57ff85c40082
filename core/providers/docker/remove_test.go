package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// stopHelpers stops each helper of a file operation as soon as it appears, and prints "stopped".
const stopHelpers = `echo ready; while :; do for p in /proc/[0-9]*; do
read -r line <$p/cmdline && continue; case $line in sb-guest*files*) kill -STOP ${p#/proc/} && echo stopped;; esac
done 2>/dev/null; done`

// A removal whose caller left also ends inside, over either path of the call, even if root inside stopped it.
func TestRemoveEndsWithItsCaller(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		for way, change := range map[string]func(*Options){"direct": nil, "through the engine": throughEngine} {
			t.Run(way, func(t *testing.T) {
				p := e.open(t, change)
				id := box(t, p, nil).ID
				for directories := 60; !interrupted(t, p, id, directories); directories *= 3 {
					if directories > 5000 {
						t.Fatal("each removal is over before it can be interrupted")
					}
				}
				eventually(t, "no helper runs", func() bool {
					out, _ := sh(t, p, id, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sb-guest [f]iles'")
					return strings.TrimSpace(out) == "0"
				})
				if out, _ := sh(t, p, id, "find /tree | wc -l"); out == "0\n" {
					t.Error("the removal went on to its end")
				}
			})
		}
	})
}

// interrupted makes a tree and cancels its removal while root inside has stopped it. It returns false if the removal
// ended earlier.
func interrupted(t *testing.T, p *Provider, id string, directories int) bool {
	t.Helper()
	const fill = "mkdir -p /tree; cd /tree; for i in $(seq 1 %d); do mkdir -p $i; (cd $i; for j in $(seq 1 200); do : > " +
		"f$j; done); done"
	if out, code := sh(t, p, id, fmt.Sprintf(fill, directories)); code != 0 {
		t.Fatal(out)
	}
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = output.Close(), input.Close() }()
	root, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sh", "-c", stopHelpers}, Stdout: input})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = root.Signal(t.Context(), 9)
		_, _ = root.Wait(providertest.Patient(t))
		_ = root.Close()
	}()
	if err := output.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("root inside does not run: ", lines.Err())
	}
	ctx, cancel := context.WithCancel(providertest.Patient(t))
	defer cancel()
	removed := make(chan error, 1)
	go func() {
		removed <- p.Remove(ctx, id, "/tree", true)
		_, _ = input.WriteString("removed " + strconv.Itoa(directories) + "\n")
	}()
	if !lines.Scan() {
		t.Fatal("the removal neither ends nor is stopped: ", lines.Err())
	}
	stopped := lines.Text() == "stopped"
	cancel()
	err = providertest.Receive(t, removed)
	if err != nil && !errors.Is(err, core.KindCanceled) {
		t.Fatalf("the removal ended with %v", err)
	}
	return stopped && err != nil
}
