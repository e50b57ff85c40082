package service_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// ran runs a line of shell and returns its output.
func ran(t *testing.T, s *service.Service, ref, line string) string {
	t.Helper()
	var out bytes.Buffer
	process, err := s.Execs.Start(
		t.Context(), ref, core.ExecSpec{Command: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if _, err := process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// furnished launches a sandbox at "cloud" in which files were added, changed and deleted.
func furnished(t *testing.T, s *service.Service, change func(*core.Spec)) {
	t.Helper()
	spec := core.Spec{
		Provider: "cloud", Name: "dev", App: "web", Labels: map[string]string{"team": "a"},
		Env: map[string]string{"COLOR": "blue"},
	}
	if change != nil {
		change(&spec)
	}
	if _, err := s.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	ran(
		t, s, "cloud/dev",
		"mkdir /root/deep; echo one > /root/deep/file; chmod 640 /root/deep/file; ln -s deep/file /root/link; chmod 700 "+
			"/var; echo own > /etc/hostname; rm -f /usr/bin/yes",
	)
}

const look = "cat /root/link; ls -l /root/deep/file | cut -c1-10; ls -l / | grep var | cut -c1-10; cat " +
	"/etc/hostname; ls /usr/bin/yes 2>/dev/null || echo gone; echo $COLOR"

func TestMove(t *testing.T) {
	s, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	furnished(t, s, nil)
	want := ran(t, s, "cloud/dev", look)
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	if result.Target.Provider != "engine" || result.Target.Name != "dev" || result.Target.App != "web" ||
		result.Target.Labels["team"] != "a" || result.Files == 0 || result.Digest == "" {
		t.Errorf("moved %+v", result)
	}
	if got := ran(t, s, "engine/dev", look); got != want || !strings.Contains(got, "one\n-rw-r-----\n") ||
		!strings.Contains(got, "gone\nblue\n") {
		t.Errorf("at the target:\n%s\nat the source:\n%s", got, want)
	}
	_, err = s.Sandboxes.Resolve(t.Context(), "cloud/dev")
	wantKind(t, err, core.KindNotFound)
}

func TestMoveKeepsWhatItIsTold(t *testing.T) {
	s, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	furnished(t, s, func(spec *core.Spec) { spec.Command = []string{"sleep", "600"} })
	_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "cloud"})
	wantKind(t, err, core.KindUsage) // two of one name
	result, err := s.Sandboxes.Move(
		t.Context(), "dev", service.MoveOptions{To: "plain", Keep: true, Paths: []string{"/root/deep"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Kept || ran(t, s, "cloud/dev", "echo on") != "on\n" ||
		ran(t, s, "plain/dev", "cat /root/deep/file; ls /root") != "one\ndeep\n" {
		t.Errorf("%+v", result)
	}
	execs, err := s.Execs.List(t.Context(), "plain/dev")
	if err != nil || !slices.ContainsFunc(execs, func(e core.Exec) bool {
		return e.ID != "0" && e.Running() &&
			e.Command[0] == "sleep"
	}) {
		t.Errorf("its command does not run: %+v, %v", execs, err)
	}
}

// If the provider cannot report differences, the usual paths are moved, with a warning. Unsupported features are
// reported before the slow search for differences.
func TestMoveWhereItCannotBe(t *testing.T) {
	cloud := fake.NewKeeper(
		fake.Options{
			Name: "cloud", IDPrefix: "clo-", Also: []core.Capability{core.CapGPU, core.CapNetAllow},
			GPUs: map[string]int{"T4": 2},
		},
		fake.KeeperOptions{},
	)
	defer cloud.Shutdown()
	plain := fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"})
	defer plain.Shutdown()
	s := service.New(service.Options{StateDir: t.TempDir(), Factories: []core.Factory{plain.Factory(), cloud.Factory()}})
	defer func() { _ = s.Close() }()
	for name, spec := range map[string]core.Spec{
		"gpu":     {GPU: core.GPU{Type: "T4", Count: 1}},
		"network": {Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"10.0.0.0/8"}}},
	} {
		spec.Provider, spec.Name = "cloud", name
		if _, err := s.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); err != nil {
			t.Fatal(err)
		}
		diffErr := core.Errorf(core.KindInternal, "diff", "", "it was looked for")
		cloud.Inject(fake.OpSave, fake.Fault{Err: diffErr})
		_, err := s.Sandboxes.Move(t.Context(), name, service.MoveOptions{To: "plain"})
		wantKind(t, err, core.KindUnsupported)
		cloud.Inject(fake.OpSave, fake.Fault{})
	}
	if _, err := s.Sandboxes.Move(t.Context(), "gpu", service.MoveOptions{To: "plain", GPU: &core.GPU{}}); err != nil {
		t.Errorf("without its GPU: %v", err)
	}
}

func TestMoveWithoutDiff(t *testing.T) {
	s, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	furnished(t, s, func(spec *core.Spec) { spec.Provider = "cloud" })
	if _, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"}); err != nil {
		t.Fatal(err)
	}
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ran(t, s, "engine/dev", "cat /root/link"); got != "one\n" ||
		!strings.Contains(strings.Join(result.Warnings, "\n"), "the differences from the image are unknown") {
		t.Errorf("%q, %+v", got, result.Warnings)
	}
}

func TestMoveAsksForSecrets(t *testing.T) {
	s, _, _ := keepers(t, service.Options{StateDir: t.TempDir()}, fake.KeeperOptions{})
	furnished(t, s, func(spec *core.Spec) {
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("hunter2")}}
	})
	_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine"})
	wantKind(t, err, core.KindUsage)
	if !strings.Contains(core.HintOf(err), "--secret TOKEN") {
		t.Errorf("the hint is %q", core.HintOf(err))
	}
	if _, err := s.Sandboxes.Move(
		t.Context(), "dev",
		service.MoveOptions{To: "engine", Secrets: []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("again")}}},
	); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, s, "dev", "echo $TOKEN"); got != "again\n" {
		t.Errorf("the secret is %q", got)
	}
}

// foreign is a provider with another default image.
type foreign struct{ *fake.Provider }

func (f foreign) Capabilities() core.Capabilities {
	caps := f.Provider.Capabilities()
	caps.Images = []string{"foreign"}
	return caps
}

// A Python version selects its own image. So the move does not warn about a default image of the source's provider.
func TestMoveWithPython(t *testing.T) {
	from := fake.NewKeeper(
		fake.Options{Name: "cloud", IDPrefix: "clo-", Also: []core.Capability{core.CapBuild}}, fake.KeeperOptions{},
	)
	to := foreign{fake.New(fake.Options{Name: "plain", IDPrefix: "pla-", Also: []core.Capability{core.CapBuild}})}
	s := service.New(service.Options{Factories: []core.Factory{
		from.Factory(), {Name: "plain", IDPrefix: "pla-", Open: func() (core.Provider, error) { return to, nil }},
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, func(spec *core.Spec) { spec.Python = "3.12" })
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
	if err != nil || slices.ContainsFunc(result.Warnings, func(w string) bool { return strings.Contains(w, "image") }) ||
		result.Target.Spec.Python != "3.12" {
		t.Errorf("%+v, %v", result, err)
	}
}

// The programs of a machine exist only there. So the target uses its own image, and the move warns, even if the
// providers have other images.
func TestMoveFromHostPrograms(t *testing.T) {
	also := []core.Capability{core.CapImages}
	from := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-", Also: also}, fake.KeeperOptions{})
	to := foreign{fake.New(fake.Options{Name: "plain", IDPrefix: "pla-", Also: also})}
	s := service.New(service.Options{Factories: []core.Factory{
		from.Factory(), {Name: "plain", IDPrefix: "pla-", Open: func() (core.Provider, error) { return to, nil }},
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, nil)
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
	if err != nil || len(result.Warnings) == 0 || result.Target.Spec.Image != "foreign" {
		t.Errorf("%+v, %v", result, err)
	}
}

// A move that fails or is canceled leaves the source unchanged and no sandbox at the target.
func TestMoveFailsWhole(t *testing.T) {
	dir := t.TempDir()
	s, _, engine := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
	furnished(t, s, nil)
	engine.Inject(
		fake.OpWrite, fake.Fault{Err: core.Errorf(core.KindExhausted, "write", "", "the disk is full"), Times: 1},
	)
	_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine"})
	wantKind(t, err, core.KindExhausted)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Sandboxes.Move(ctx, "dev", service.MoveOptions{To: "engine", Progress: func(p core.Progress) {
		if p.Step == "copying" {
			cancel()
		}
	}})
	if err == nil {
		t.Error("a move that was given up succeeded")
	}
	if _, err := s.Sandboxes.Resolve(t.Context(), "engine/dev"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("something is left at the target: %v", err)
	}
	if got := ran(t, s, "cloud/dev", "cat /root/deep/file"); got != "one\n" {
		t.Errorf("the source has %q", got)
	}
	ended := 0
	for record, err := range s.Records.History(t.Context(), service.HistoryFilter{Op: "terminate"}) {
		if err == nil && record.Provider == "engine" && record.Result == "ok" {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("the end of a target is recorded %d times, want 2: its cost is unknown", ended)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "moves")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A move whose process died is resumed. A move whose process may still run is not touched.
func TestMoveGoesOn(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
	furnished(t, s, nil)
	source, err := s.Sandboxes.Resolve(t.Context(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	begun, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "engine", Name: "dev"}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remember := func(pid, boot string) {
		t.Helper()
		host, _ := os.Hostname()
		text := `{"owner": {"actor": "cli", "host": "` + host + `", "boot_id": "` + boot + `", "pid": ` + pid + `},
			"source": "` + source.Ref() + `", "to": "engine", "target": "` + begun.ID + `"}`
		if err := os.MkdirAll(filepath.Join(dir, "moves"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "moves", "cloud-"+source.ID+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remember("1", "") // its owner is unknown
	_, err = s.Sandboxes.Move(t.Context(), "cloud/dev", service.MoveOptions{To: "engine"})
	wantKind(t, err, core.KindConflict)
	remember("1", "another boot")
	_, err = s.Sandboxes.Move(t.Context(), "cloud/dev", service.MoveOptions{To: "plain"})
	wantKind(t, err, core.KindConflict)
	result, err := s.Sandboxes.Move(t.Context(), "cloud/dev", service.MoveOptions{To: "engine"})
	if err != nil || !result.Resumed || result.Target.ID != begun.ID {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := ran(t, s, "engine/dev", "cat /root/deep/file"); got != "one\n" {
		t.Errorf("the target has %q", got)
	}
}

// Until a move is over, the name means its source, even if the target has the same name and comes first. So a repeated
// command resumes the move.
func TestMoveGoesOnByName(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
	furnished(t, s, nil)
	begun, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "plain", Name: "dev"}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := s.Sandboxes.Resolve(t.Context(), "cloud/dev")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"owner": dead(), "source": source.Ref(), "to": "plain", "name": "dev", "target": begun.ID,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "moves", "cloud-"+source.ID+".json")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"dev": source.ID, "plain/dev": begun.ID, begun.ID: begun.ID} {
		if sb, err := s.Sandboxes.Resolve(t.Context(), ref); err != nil || sb.ID != want {
			t.Errorf("until then %s is %s, %v", ref, sb.ID, err)
		}
	}
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
	if err != nil || !result.Resumed || result.Target.ID != begun.ID {
		t.Fatalf("%+v, %v", result, err)
	}
	if sb, err := s.Sandboxes.Resolve(t.Context(), "dev"); err != nil || sb.ID != begun.ID {
		t.Errorf("afterwards dev is %s, %v", sb.ID, err)
	}
	if got := ran(t, s, "dev", "cat /root/deep/file"); got != "one\n" {
		t.Errorf("the target has %q", got)
	}
}

// Move rejects a state that is empty, cut or of another sandbox. The error names the file, and no sandbox is launched
// or ended.
func TestDamagedMoveIsNamed(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
	furnished(t, s, nil)
	source, err := s.Sandboxes.Resolve(t.Context(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(map[string]any{"owner": dead(), "source": source.Ref(), "to": "plain", "name": "dev"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "moves", "cloud-"+source.ID+".json")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "{}": "{}", "cut": string(whole[:len(whole)/2]),
		"another's": strings.Replace(string(whole), source.ID, "other", 1),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
		if wantKind(t, err, core.KindConflict); !strings.Contains(err.Error(), file) {
			t.Errorf("%s: move: %v", name, err)
		}
		report, err := s.Prune(t.Context(), service.PruneOptions{})
		if err != nil || len(report.Sandboxes) > 0 || len(report.Failures) != 1 ||
			!strings.Contains(report.Failures[0].Error, file) {
			t.Errorf("%s: prune: %+v, %v", name, report, err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := s.Sandboxes.List(t.Context(), core.ListFilter{}); err != nil || len(list.Sandboxes) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// dead returns a process of this machine before its last boot.
func dead() core.Owner {
	owner := core.CurrentOwner("cli")
	owner.BootID = "another boot"
	return owner
}

// noting is a provider that records the files of moves while it launches.
type noting struct {
	*fake.Provider

	dir  string
	seen []string
}

func (n *noting) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (core.Sandbox, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "moves", "*.json"))
	if err != nil {
		return core.Sandbox{}, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return core.Sandbox{}, err
		}
		n.seen = append(n.seen, string(text))
	}
	return n.Provider.Launch(ctx, spec, lease, progress)
}

// If a crash interrupts the launch of the target, the next move resumes it and the next prune removes it.
func TestMoveIsKnownBeforeItsTarget(t *testing.T) {
	dir := t.TempDir()
	from := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-"}, fake.KeeperOptions{})
	to := &noting{Provider: fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"}), dir: dir}
	s := service.New(service.Options{StateDir: dir, Factories: []core.Factory{
		from.Factory(), {Name: "plain", IDPrefix: "pla-", Open: func() (core.Provider, error) { return to, nil }},
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, nil)
	source, err := s.Sandboxes.Resolve(t.Context(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain", Keep: true}); err != nil {
		t.Fatal(err)
	}
	if len(to.seen) != 1 || !strings.Contains(to.seen[0], `"name":"dev"`) || strings.Contains(to.seen[0], `"target"`) {
		t.Fatalf("at the launch stood %q", to.seen)
	}
	if err := s.Sandboxes.Terminate(t.Context(), "plain/dev"); err != nil {
		t.Fatal(err)
	}
	// As if the process had died now; it was one of another boot.
	var state map[string]any
	if err := json.Unmarshal([]byte(to.seen[0]), &state); err != nil {
		t.Fatal(err)
	}
	state["owner"] = dead()
	interrupted := func(owner core.Owner) core.Sandbox {
		t.Helper()
		text, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "moves", "cloud-"+source.ID+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		target, err := to.Provider.Launch(
			t.Context(), core.Spec{Name: "dev"}, core.Lease{Owner: owner, Created: time.Now()}, nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	begun := interrupted(dead())
	if result, err := s.Sandboxes.Move(
		t.Context(), "cloud/dev", service.MoveOptions{To: "plain", Keep: true},
	); err != nil ||
		!result.Resumed || result.Target.ID != begun.ID {
		t.Errorf("the move: %+v, %v", result, err)
	}
	if err := s.Sandboxes.Terminate(t.Context(), "plain/dev"); err != nil {
		t.Fatal(err)
	}
	begun = interrupted(dead())
	report, err := s.Prune(t.Context(), service.PruneOptions{DryRun: true})
	if err != nil || len(report.Sandboxes) != 1 || report.Sandboxes[0].ID != begun.ID {
		t.Errorf("prune would remove %+v, %v", report, err)
	}
	if report, err := s.Prune(t.Context(), service.PruneOptions{}); err != nil || len(report.Sandboxes) != 1 {
		t.Errorf("prune removes %+v, %v", report, err)
	}
	_, err = s.Sandboxes.Resolve(t.Context(), "plain/dev")
	wantKind(t, err, core.KindNotFound)
	// A sandbox of another owner with the same name is not the move's target.
	other := interrupted(core.CurrentOwner("other-user"))
	if report, err := s.Prune(t.Context(), service.PruneOptions{}); err != nil || len(report.Sandboxes) != 0 {
		t.Errorf("prune removes a foreign move: %+v, %v", report, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "moves")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	// If the source is gone, the target is the only copy.
	if err := s.Sandboxes.Terminate(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	interrupted(dead())
	if err := s.Sandboxes.Terminate(t.Context(), "cloud/dev"); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Prune(t.Context(), service.PruneOptions{}); err != nil || len(report.Sandboxes) != 0 {
		t.Errorf("prune removes the only copy: %+v, %v", report, err)
	}
}

// losing is a provider in which a directory disappears once, between its listing and its read.
type losing struct {
	*fake.Keeper

	lost bool
}

func (l *losing) Export(ctx context.Context, id, name string) (io.ReadCloser, error) {
	archive, err := l.Keeper.Export(ctx, id, name)
	if err != nil || name != "/root" && name != "/root/" && name != "/root/deep" || l.lost {
		return archive, err
	}
	l.lost = true
	var whole bytes.Buffer
	r, w := tar.NewReader(archive), tar.NewWriter(&whole)
	header, err := r.Next()
	if err == nil {
		err = errors.Join(w.WriteHeader(header), w.Flush())
	}
	vanished := core.Errorf(core.KindNotFound, "export", name, "no such file or directory")
	return io.NopCloser(io.MultiReader(&whole, failing{vanished})), errors.Join(err, archive.Close())
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A file that disappears during the move is skipped, and all others are moved.
func TestMoveWhileFilesGoAway(t *testing.T) {
	from := &losing{Keeper: fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-"}, fake.KeeperOptions{})}
	to := fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"})
	s := service.New(service.Options{Factories: []core.Factory{
		{Name: "cloud", IDPrefix: "clo-", Open: func() (core.Provider, error) { return from, nil }}, to.Factory(),
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, nil)
	want := ran(t, s, "cloud/dev", look)
	if _, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"}); err != nil {
		t.Fatal(err)
	}
	if !from.lost {
		t.Fatal("nothing went away")
	}
	if got := ran(t, s, "plain/dev", look); got != want {
		t.Errorf("at the target:\n%s\nat the source:\n%s", got, want)
	}
}

// hiding is a provider with one unreadable file.
type hiding struct {
	*fake.Keeper

	hidden string
}

func (h *hiding) Export(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if name == h.hidden || strings.HasPrefix(h.hidden, name+"/") {
		return nil, core.Errorf(core.KindUnauthorized, "export", h.hidden, "permission denied")
	}
	return h.Keeper.Export(ctx, id, name)
}

// A move skips an unreadable file and copies the others.
func TestMoveWithoutWhatCannotBeRead(t *testing.T) {
	from := &hiding{
		fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-"}, fake.KeeperOptions{}), "/root/deep/secret",
	}
	to := fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"})
	s := service.New(service.Options{Factories: []core.Factory{
		{Name: "cloud", IDPrefix: "clo-", Open: func() (core.Provider, error) { return from, nil }}, to.Factory(),
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, nil)
	ran(t, s, "dev", "echo x > /root/deep/secret; echo two > /root/deep/second")
	result, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ran(t, s, "plain/dev", "ls /root/deep; cat /root/link"); got != "file\nsecond\none\n" {
		t.Errorf("at the target are %q", got)
	}
	if !slices.ContainsFunc(result.Warnings, func(w string) bool {
		return strings.Contains(w, "/root/deep/secret cannot be read")
	}) {
		t.Errorf("warned of %q", result.Warnings)
	}
}

// spoiling is a provider whose disk corrupts written content.
type spoiling struct{ *fake.Provider }

func (s *spoiling) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	if err := s.Provider.Import(ctx, id, dir, archive, opts); err != nil {
		return err
	}
	return s.WriteFile(ctx, id, "/root/deep/file", strings.NewReader("onE\n"), core.WriteOptions{})
}

// The source stays until the files at the target are verified.
func TestMoveProvesItsFiles(t *testing.T) {
	from := fake.NewKeeper(fake.Options{Name: "cloud", IDPrefix: "clo-"}, fake.KeeperOptions{})
	to := &spoiling{fake.New(fake.Options{Name: "plain", IDPrefix: "pla-"})}
	s := service.New(service.Options{Factories: []core.Factory{
		from.Factory(), {Name: "plain", IDPrefix: "pla-", Open: func() (core.Provider, error) { return to, nil }},
	}})
	t.Cleanup(func() {
		_ = s.Close()
		from.Shutdown()
		to.Shutdown()
	})
	furnished(t, s, nil)
	_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "plain"})
	wantKind(t, err, core.KindConflict)
	if got := ran(t, s, "cloud/dev", "cat /root/deep/file"); got != "one\n" {
		t.Errorf("the source has %q", got)
	}
	_, err = s.Sandboxes.Resolve(t.Context(), "plain/dev")
	wantKind(t, err, core.KindNotFound)
}

// Two moves of one sandbox run in one process. The second fails while the first runs, and does not end the target of
// the first.
func TestMoveOnceAtATime(t *testing.T) {
	for name, dir := range map[string]string{"with a state directory": t.TempDir(), "without": ""} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
			furnished(t, s, nil)
			var once sync.Once
			_, err := s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine", Progress: func(p core.Progress) {
				if p.Step != "copying" {
					return
				}
				once.Do(func() {
					_, err := s.Within(service.Scope{}).Sandboxes.Move(t.Context(), "cloud/dev", service.MoveOptions{To: "engine"})
					wantKind(t, err, core.KindConflict)
				})
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := ran(t, s, "engine/dev", "cat /root/deep/file"); got != "one\n" {
				t.Errorf("the target has %q", got)
			}
			if _, err := s.Sandboxes.Move(t.Context(), "engine/dev", service.MoveOptions{To: "plain"}); err != nil {
				t.Errorf("it cannot be moved again: %v", err)
			}
		})
	}
}

// If the source ends during a move, the move fails, and the target stays as the only copy.
func TestMoveWhoseSourceEnds(t *testing.T) {
	dir := t.TempDir()
	s, cloud, _ := keepers(t, service.Options{StateDir: dir}, fake.KeeperOptions{})
	furnished(t, s, nil)
	ran(t, s, "cloud/dev", "echo two >/srv/second; echo three >/var/third")
	source, err := s.Sandboxes.Resolve(t.Context(), "cloud/dev")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	_, err = s.Sandboxes.Move(t.Context(), "dev", service.MoveOptions{To: "engine", Progress: func(p core.Progress) {
		if p.Step == "copying" {
			once.Do(func() {
				if err := cloud.Terminate(t.Context(), source.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}})
	wantKind(t, err, core.KindConflict)
	if target, resolveErr := s.Sandboxes.Resolve(t.Context(), "engine/dev"); resolveErr != nil ||
		target.State != core.StateRunning || !strings.Contains(err.Error(), target.Ref()) {
		t.Errorf("the target is %+v, %v; reported: %v", target, resolveErr, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "moves")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
