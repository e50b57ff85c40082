package service

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/seal"
)

// eachBit calls with each copy of text that differs in one bit.
func eachBit(text []byte, with func(at int, changed []byte)) {
	for at := range text {
		for bit := range 8 {
			changed := bytes.Clone(text)
			changed[at] ^= 1 << bit
			with(at, changed)
		}
	}
}

// A changed bit makes a line of the audit log damaged, or the line still has its original meaning.
func TestEveryChangedBitOfAnAuditLineIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := service(t, Options{StateDir: dir})
	written := []AuditRecord{
		{Time: time.Unix(1_700_000_000, 0).UTC(), Actor: "cli", PID: 12, Op: "launch", Sandbox: "loc-1", Result: "ok"},
		{Time: time.Unix(1_700_000_001, 0).UTC(), Actor: "cli", PID: 12, Op: "exec", Sandbox: "loc-1", Result: "ok"},
	}
	for _, record := range written {
		if err := s.audit.append(&record); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, auditFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	eachBit(text, func(at int, changed []byte) {
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		unread := len(written)
		for record, err := range s.Records.History(t.Context(), HistoryFilter{}) {
			if damage, ok := errors.AsType[*AuditDamage](err); ok && strings.Contains(err.Error(), path) {
				unread -= damage.Lines
				continue
			}
			if err != nil || !reflect.DeepEqual(record, written[0]) && !reflect.DeepEqual(record, written[1]) {
				t.Errorf("byte %d: %+v, %v", at, record, err)
			}
			unread--
		}
		// The end of the last line belongs to the line: without it, the line counts as being written.
		if unread > 0 && changed[len(changed)-1] == '\n' && bytes.Count(changed, []byte("\n")) == len(written) {
			t.Errorf("byte %d: %d lines are neither read nor named", at, unread)
		}
	})
}

// After a change of any bit, the state of a move is the original, or an error names the file.
func TestEveryChangedBitOfAMoveIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), stateName("local", "loc-1"))
	want := moveState{
		Owner: core.Owner{Host: "host", User: "user", PID: 12}, Source: "local/loc-1", To: "docker", Name: "dev",
		Begun: time.Unix(1_700_000_000, 0).UTC(), Target: "a1b2c3",
	}
	text, err := seal.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	eachBit(text, func(at int, changed []byte) {
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readMove(path)
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("byte %d: %+v is believed", at, got)
		}
		if err != nil && (!errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), path)) {
			t.Errorf("byte %d: %v", at, err)
		}
	})
}

// A move whose state is lost or damaged is read from the copy. When it is forgotten, nothing is left.
func TestDamagedMoveIsReadFromItsCopy(t *testing.T) {
	dir := t.TempDir()
	m := &move{s: &base{audit: &auditLog{dir: dir}}, source: core.Sandbox{ID: "loc-1", Provider: "local"}}
	want := moveState{Source: "local/loc-1", To: "docker", Name: "dev", Target: "a1b2c3"}
	for _, damage := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(m.stateFile(), []byte("{}"), 0o600) },
		func() error { return os.Remove(m.stateFile()) },
	} {
		if err := errors.Join(m.remember(want), damage()); err != nil {
			t.Fatal(err)
		}
		if got, err := readMove(m.stateFile()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		if files, err := m.s.moveFiles(); err != nil || !slices.Equal(files, []string{m.stateFile()}) {
			t.Errorf("the files are %q, %v", files, err)
		}
	}
	if err := errors.Join(
		m.remember(want), os.Truncate(m.stateFile(), 10), os.Truncate(m.stateFile()+moveCopy, 10),
	); err != nil {
		t.Fatal(err)
	}
	if got, err := readMove(m.stateFile()); !errors.Is(err, core.KindConflict) {
		t.Errorf("%+v, %v", got, err)
	}
	if left, err := os.ReadDir(m.s.movesDir()); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	if err := m.forget(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(m.s.movesDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
