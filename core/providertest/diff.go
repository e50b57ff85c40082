package providertest

import (
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// RunDiff checks that a provider reports only added, changed and deleted files. It may search all files of the image,
// so it is apart from the contract, which some providers run several times.
func RunDiff(t *testing.T, open Opener) {
	t.Helper()
	p := (&suite{open: open}).provider(t)
	differ, ok := optional[core.Differ](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, nil)
	if r := sh(
		t, p, sb.ID, "mkdir /root/new; echo x > /root/new/file; chmod 600 /etc/hostname 2>/dev/null; rm -f /usr/bin/yes",
	); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	changes, err := differ.Diff(t.Context(), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(changes, func(a, b core.Change) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	}) {
		t.Errorf("the changes are not sorted: %+v", changes)
	}
	for _, want := range []core.Change{{Path: "/root/new", Kind: "added"}, {Path: "/root/new/file", Kind: "added"}} {
		if !slices.Contains(changes, want) {
			t.Errorf("%+v is not among %+v", want, changes)
		}
	}
	if slices.ContainsFunc(changes, func(c core.Change) bool { return c.Path == "/root" || c.Path == "/usr/bin/cat" }) {
		t.Errorf("an unchanged file is among %+v", changes)
	}
}
