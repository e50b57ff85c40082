//go:build linux

package modal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/service"
)

// diffRecorder is a provider that records the last difference.
type diffRecorder struct {
	*modal.Provider

	changes []core.Change
}

func (p *diffRecorder) Diff(ctx context.Context, id string) (_ []core.Change, err error) {
	p.changes, err = p.Provider.Diff(ctx, id)
	return p.changes, err
}

// Diff finds the differences from the image, and Move applies them, including deletions. The reference sandbox is ended
// afterwards.
func TestMoveAppliesDiff(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	p := &diffRecorder{Provider: modal.New(r.opts)}
	elsewhere := fake.New(fake.Options{})
	defer elsewhere.Shutdown()
	svc := service.New(service.Options{Factories: []core.Factory{
		{Name: elsewhere.Name(), IDPrefix: "fak-", Open: func() (core.Provider, error) { return elsewhere, nil }},
		{Name: p.Name(), IDPrefix: modal.IDPrefix, Open: func() (core.Provider, error) { return p, nil }},
	}})
	defer func() { _ = svc.Close() }()
	s := spec()
	s.Name, s.Volumes = "wanderer", []core.Volume{{Source: "data", Target: "/data"}}
	sb := launched(t, p, s)
	shell(t, p, sb.ID, `mkdir -p /opt/new/deep; echo one >/opt/new/deep/file; printf x >'/opt/new/a
b'; echo kept >/data/file; ln -s /opt/new /srv/link; echo more >>/etc/profile-of-mine
rm /usr/bin/yes; chmod 700 /var/cache; cp /bin/true /usr/bin/zcat.new && mv /usr/bin/zcat.new /usr/bin/zcat; touch -r /usr /usr/bin; tr D d </etc/os-release >/tmp/o && cat /tmp/o >/etc/os-release && rm /tmp/o; cat /etc/passwd >/tmp/p && cat /tmp/p >/etc/passwd && rm /tmp/p`)
	result, err := svc.Sandboxes.Move(t.Context(), "wanderer", service.MoveOptions{To: elsewhere.Name()})
	if err != nil {
		t.Fatal(err)
	}
	want := []core.Change{
		{Path: "/etc/profile-of-mine", Kind: "added"},
		{Path: "/opt/new", Kind: "added"},
		{Path: "/opt/new/a\nb", Kind: "added"},
		{Path: "/opt/new/deep", Kind: "added"},
		{Path: "/opt/new/deep/file", Kind: "added"},
		{Path: "/srv/link", Kind: "added"},
		{Path: "/usr/bin/yes", Kind: "deleted"},
		{Path: "/usr/bin/zcat", Kind: "changed"},
		{Path: "/usr/lib/os-release", Kind: "changed"},
		{Path: "/var/cache", Kind: "changed"},
	}
	if diff := cmp.Diff(want, p.changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("left at Modal are %+v, %v", all, err)
	}
	if slices.ContainsFunc(result.Warnings, func(w string) bool { return strings.Contains(w, "differs") }) {
		t.Errorf("warned of %q", result.Warnings)
	}
	if info, err := elsewhere.Stat(t.Context(), result.Target.ID, "/opt/new/deep/file"); err != nil || info.Size != 4 {
		t.Errorf("at the target: %+v, %v", info, err)
	}
	if _, err := elsewhere.Stat(t.Context(), result.Target.ID, "/usr/bin/yes"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("a deleted file is at the target: %v", err)
	}
}
