//go:build linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// made makes a sandbox with a lease, a state and saved files.
func made(t *testing.T, s *Store, id string) {
	t.Helper()
	lock, err := s.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	saved := filepath.Join(s.Dir(id), SavedDir, "1")
	err = errors.Join(WriteLease(s.Dir(id), Lease{ID: id}), WriteState(s.Dir(id), State{State: "stopped", Saved: 1}, true),
		os.MkdirAll(saved, 0o700),
		os.WriteFile(filepath.Join(saved, "pages.img"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// A client that is killed during the removal of a sandbox leaves a lost sandbox. The sandbox can never be started with
// incomplete files.
func TestBrokenRemovalLeavesNoSavedFiles(t *testing.T) {
	s := New(t.TempDir())
	made(t, s, "loc-aaaaaaaa")
	for range 2 { // it is repeated by who removes the rest
		if err := s.withdraw("loc-aaaaaaaa"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ReadState("loc-aaaaaaaa"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.Dir("loc-aaaaaaaa"), SavedDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the saved files: %v", err)
	}
	if _, err := s.ReadLease("loc-aaaaaaaa"); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if err := s.Remove("loc-aaaaaaaa", "name"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir("loc-aaaaaaaa")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

// The rest of an interrupted removal does not keep the next checkpoint of that name from being removed.
func TestRemoveAfterABrokenRemoval(t *testing.T) {
	shelf := New(t.TempDir()).Checkpoints()
	for range 2 {
		draft, err := shelf.Draft()
		if err != nil {
			t.Fatal(err)
		}
		if err := draft.Publish("name", struct{}{}, false); err != nil {
			t.Fatal(err)
		}
		draft.Close()
		left := filepath.Join(shelf.dir, draftPrefix+"name", "image") // the leftover that the second removal finds
		if err := errors.Join(shelf.Remove("name"), os.MkdirAll(left, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := shelf.Remove("name"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removal of a missing sandbox: %v", err)
	}
}
