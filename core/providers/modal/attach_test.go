//go:build linux

package modal_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
)

// By its id alone, another process can wait for a command, write its input, read its output and end it.
func TestAttachByID(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	for name, gpu := range map[string]core.GPU{"first": {Type: "T4", Count: 1}, "second": {}} {
		t.Run(name, func(t *testing.T) {
			starter := modal.New(r.opts)
			s := spec()
			s.GPU = gpu
			id := launched(t, starter, s).ID
			input, feed := io.Pipe()
			defer func() { _ = feed.Close() }()
			begun, err := starter.Exec(
				t.Context(), id,
				core.ExecSpec{
					Command: []string{"sh", "-c", "echo early; while read line; do echo got $line; done; exit 7"}, Stdin: input,
					Stdout: io.Discard,
				},
			)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := feed.Write([]byte("one\n")); err != nil {
				t.Fatal(err)
			}
			stuck, err := starter.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sleep", "600"}, Detach: true})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool {
				text, _ := logged(t, starter, id, core.LogOptions{Tail: -1, Exec: begun.ID()})
				return strings.Contains(text, "got one")
			})
			for _, closer := range []io.Closer{begun, stuck, starter} { // as if the first process had ended
				if err := closer.Close(); err != nil {
					t.Fatal(err)
				}
			}
			p := modal.New(r.opts)
			t.Cleanup(func() { _ = p.Close() })

			attach := func(exec string, streams core.Streams) core.Process {
				t.Helper()
				process, err := p.Attach(t.Context(), id, exec, streams)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = process.Close() })
				return process
			}
			if exit, err := p.ExecEnd(t.Context(), id, stuck.ID()); err != nil || exit != nil {
				t.Errorf("a running command has ended: %+v, %v", exit, err)
			}
			var fresh, all bytes.Buffer
			onlyNew := attach(begun.ID(), core.Streams{Stdout: &fresh})
			fed := attach(begun.ID(), core.Streams{Stdin: strings.NewReader("two\n"), Stdout: &all, Replay: true})
			for process, want := range map[core.Process]string{onlyNew: "got two\n", fed: "early\ngot one\ngot two\n"} {
				exit, err := process.Wait(providertest.Patient(t))
				out := &fresh
				if process == fed {
					out = &all
				}
				if got := out.String(); err != nil || exit.Code != 7 || got != want { // no writes after Wait
					t.Errorf("%+v, %v, %q, want %q", exit, err, got, want)
				}
			}
			if exit, err := attach(begun.ID(), core.Streams{}).Wait(providertest.Patient(t)); err != nil || exit.Code != 7 {
				t.Errorf("after its end: %+v, %v", exit, err)
			}
			if exit, err := p.ExecEnd(t.Context(), id, begun.ID()); err != nil || exit == nil || exit.Code != 7 {
				t.Errorf("its end: %+v, %v", exit, err)
			}
			ended := attach(begun.ID(), core.Streams{})
			if err := ended.Signal(t.Context(), 15); !errors.Is(err, core.KindConflict) {
				t.Errorf("a signal after its end: %v", err)
			}
			killed := attach(stuck.ID(), core.Streams{})
			if err := killed.Signal(t.Context(), 9); err != nil {
				t.Fatal(err)
			}
			if exit, err := killed.Wait(providertest.Patient(t)); err != nil || exit.Signal != 9 {
				t.Errorf("killed: %+v, %v", exit, err)
			}
			if exit, err := p.ExecEnd(t.Context(), id, stuck.ID()); err != nil || exit == nil || exit.Signal != 9 {
				t.Errorf("its end: %+v, %v", exit, err)
			}
			for _, unknown := range []string{
				"999", "", "0", "-1", "../1", uuid.NewString(), strings.ToUpper(begun.ID()), strings.Repeat("9", 300),
			} {
				if _, err := p.Attach(t.Context(), id, unknown, core.Streams{}); !errors.Is(err, core.KindNotFound) {
					t.Errorf("%q: %v", unknown, err)
				}
				if _, err := p.ExecEnd(t.Context(), id, unknown); !errors.Is(err, core.KindNotFound) {
					t.Errorf("the end of %q: %v", unknown, err)
				}
			}
		})
	}
}
