package docker

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// sweepAll removes what nothing owns any more.
func sweepAll(t *testing.T, p *Provider) {
	t.Helper()
	left, err := p.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if err := p.Sweep(t.Context(), l); err != nil {
			t.Errorf("%s: %v", l.Subject, err)
		}
	}
}

// helperVolumes lists the volumes of an engine that the helper comes with.
func helperVolumes(t *testing.T, e testEngine) []string {
	t.Helper()
	listed, err := e.raw(t).VolumeList(t.Context(), client.VolumeListOptions{Filters: make(client.Filters).Add("name", helperPrefix)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range listed.Items {
		names = append(names, v.Name)
	}
	return names
}

// The helper is made once, by whoever comes first, and goes when nobody has it.
func TestHelperShared(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		sweepAll(t, e.open(t, nil))
		if left := helperVolumes(t, e); len(left) > 0 {
			t.Fatalf("the engine has %q", left)
		}
		// Each as a process of its own would be.
		providers := []*Provider{e.open(t, nil), e.open(t, nil), e.open(t, nil)}
		var wg sync.WaitGroup
		for _, p := range providers {
			wg.Go(func() {
				sb := box(t, p, nil)
				if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
					t.Errorf("it says %q", out)
				}
			})
		}
		wg.Wait()
		p := providers[0]
		volumes := helperVolumes(t, e)
		if len(volumes) != 1 {
			t.Fatalf("the engine has %q", volumes)
		}
		sb := box(t, p, nil)
		for _, try := range []string{
			"echo x > /.sb/bin/sb-guest", "rm -f /.sb/bin/sb-guest", "mv /.sb/bin/sb-guest /.sb/x", "touch /.sb/bin/x", "rmdir /.sb/bin",
			"mv /.sb/bin /.sb/x", "mv /.sb /x", "mount -o remount,rw /.sb/bin", "mount -t tmpfs none /.sb/bin", "chmod 777 /.sb/bin",
		} {
			if out, code := sh(t, p, sb.ID, try+" 2>&1"); code == 0 {
				t.Errorf("%s worked: %s", try, out)
			}
		}
		if named, err := p.Volumes(t.Context()); err != nil || len(named) > 0 {
			t.Errorf("volumes of somebody's are %+v, %v", named, err)
		}
		for _, name := range []string{volumes[0], helperPrefix + "next"} { // of what comes, too: who fills it first is believed
			_, err := p.Launch(t.Context(), core.Spec{Name: core.NewName(), Image: testImage, Volumes: []core.Volume{{Source: name, Target: "/v"}}}, core.Lease{}, nil)
			wantKind(t, err, core.KindUnauthorized)
			_, err = p.CreateVolume(t.Context(), name, core.VolumeOptions{})
			wantKind(t, err, core.KindUnauthorized)
		}
		wantKind(t, p.RemoveVolume(t.Context(), volumes[0]), core.KindNotFound)
		if left, err := p.Leftovers(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("while it is in use this is left over: %+v, %v", left, err)
		}
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: volumes[0]}); err != nil {
			t.Errorf("sweeping it: %v", err)
		}
		if again := helperVolumes(t, e); len(again) != 1 {
			t.Errorf("under a sandbox it was removed")
		}
	})
}

// Whoever prunes the engine's volumes between two steps of a launch, or broke one off, does no lasting harm.
func TestHelperLost(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sweepAll(t, p)
		h, err := p.helper(p.engine.facts.Arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.raw(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: h.volume}); err != nil {
			t.Fatal(err)
		}
		sb := box(t, p, nil)
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
			t.Errorf("it says %q", out)
		}
		// Another process fills it once more, under a sandbox that runs.
		if err := p.engine.fill(t.Context(), h, testImage); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
			t.Errorf("then it says %q", out)
		}
	})
}

// What a launch that was killed left behind is found, and what is under way is not.
func TestHelperBrokenOff(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		h, err := p.helper(p.engine.facts.Arch)
		if err != nil {
			t.Fatal(err)
		}
		made, err := e.raw(t).ContainerCreate(t.Context(), h.filler(testImage))
		if err != nil {
			t.Fatal(err)
		}
		for age, want := range map[string]int{"young": 0, "old": 1} {
			least := fillingAge
			if age == "old" {
				least = -fillingAge
			}
			if found, err := p.engine.brokenOff(t.Context(), least); err != nil || len(found) != want {
				t.Errorf("%s: %d are found, %v", age, len(found), err)
			}
		}
		all, err := p.List(t.Context())
		if err != nil || slices.ContainsFunc(all, func(sb core.Sandbox) bool { return sb.ID == idOf(made.ID) }) {
			t.Errorf("it is listed as a sandbox: %+v, %v", all, err)
		}
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: fillingPrefix + made.ID}); err != nil {
			t.Error(err)
		}
		if found, err := p.engine.brokenOff(t.Context(), -fillingAge); err != nil || len(found) > 0 {
			t.Errorf("after the sweep: %d are found, %v", len(found), err)
		}
	})
}

// Of an archive that breaks off nothing is seen under the helper's name.
func TestHelperArchive(t *testing.T) {
	archive, err := helper{program: bytes.Repeat([]byte("x"), 4096)}.archive()
	if err != nil {
		t.Fatal(err)
	}
	program, link := bytes.Index(archive, []byte("xxxx")), bytes.LastIndex(archive, []byte("sb-guest\x00"))
	if first := strings.Index(string(archive), "sb-guest\x00"); first != link || program > link {
		t.Errorf("the program is at %d, its name at %d and %d", program, first, link)
	}
}
