//go:build linux

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local/build"
)

// write writes files below a directory.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// steps records the progress of builds.
type steps struct {
	// ran and cached are the titles of steps, logged the lines of output.
	ran, cached, logged []string
}

func (s *steps) take(p core.Progress) {
	title, cached := strings.CutSuffix(p.Step, " (cached)")
	switch {
	case p.Log:
		s.logged = append(s.logged, p.Step)
	case !strings.HasPrefix(title, "["):
	case cached:
		s.cached = append(s.cached, title)
	case p.Rare:
		s.ran = append(s.ran, title)
	}
}

// offline is the policy of the builds in tests.
func offline(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkNone} }

func TestBuild(t *testing.T) {
	p := opened(t, opener(t, nil))
	base := busyboxImage(t, nil)
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"Dockerfile": "ARG BASE\nFROM $BASE AS base\nCOPY app /srv/app\n" +
			"RUN echo built > /srv/app/out; cat /proc/uptime > /srv/app/when; rm /usr/bin/yes; echo a line\n" +
			"ENV FROM_FILE=1\nWORKDIR /srv/app\nUSER dev\n",
		"app/main": "main\n", "app/secret.env": "s3cret\n", ".dockerignore": "**/*.env\n",
	})
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"Dockerfile": strings.Replace(string(text), "$BASE", base, 1)})
	when := ""
	for i := range 2 {
		var seen steps
		spec := core.Spec{Name: core.NewName(), Dockerfile: dir, Disk: 256 * core.MiB}
		offline(&spec)
		sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test")}, seen.take)
		if err != nil {
			t.Fatal(err)
		}
		endWith(t, p, sb)
		out := output(t, p, sb.ID, "pwd; id -un; cat main out; ls secret.env /usr/bin 2>/dev/null; echo $FROM_FILE")
		if out != "/srv/app\ndev\nmain\nbuilt\n/usr/bin:\n1\n" {
			t.Errorf("inside: %q", out)
		}
		now := output(t, p, sb.ID, "cat when")
		if i == 1 && (now != when || len(seen.ran) != 0 || len(seen.cached) != 3) {
			t.Errorf("the second build: %+v", seen)
		}
		if i == 0 && (len(seen.ran) != 3 || !slices.Contains(seen.logged, "a line")) {
			t.Errorf("the first build: %+v", seen)
		}
		when = now
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("the sandboxes of builds remain: %+v, %v", all, err)
	}
	write(t, dir, map[string]string{"Dockerfile": "FROM " + base + "\nRUN true\nRUN echo the reason; exit 9\n"})
	spec := core.Spec{Name: core.NewName(), Dockerfile: dir}
	offline(&spec)
	_, err = p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test")}, nil)
	if !errors.Is(err, core.KindUsage) || !strings.Contains(
		err.Error(), "Dockerfile:3: RUN echo the reason; exit 9: exit code 9\nthe reason",
	) {
		t.Errorf("a build that fails says %v", err)
	}
	spec.Dockerfile = filepath.Join(dir, "none")
	_, err = p.Launch(t.Context(), spec, core.Lease{}, nil)
	if !errors.Is(err, core.KindNotFound) {
		t.Errorf("without a Dockerfile: %v", err)
	}
}

// builtFrom builds a Dockerfile in a directory, without a network.
func builtFrom(
	t *testing.T, p *Provider, dir, dockerfile string, change func(*core.ImageBuild),
) (core.ImageInfo, steps) {
	t.Helper()
	write(t, dir, map[string]string{"Dockerfile": dockerfile})
	b := core.ImageBuild{Dir: dir, File: filepath.Join(dir, "Dockerfile"), Name: "built:test"}
	offline(&b.Spec)
	if change != nil {
		change(&b)
	}
	var seen steps
	built, err := p.BuildImage(t.Context(), b, seen.take)
	if err != nil {
		t.Fatal(err)
	}
	return built, seen
}

// A file that is larger than the memory of its sandbox is compared and kept like others.
func TestFilesLargerThanMemory(t *testing.T) {
	programtest.Long(t)
	p := opened(t, opener(t, nil))
	const memory = 128 * core.MiB
	sb := launchFrom(t, p, func(spec *core.Spec) {
		spec.Image, spec.Memory, spec.Disk = busyboxImage(t, nil), memory, core.GiB
	})
	const line = "truncate -s 4G /root/hole; dd if=/dev/urandom of=/root/full bs=1M count=160 2>/dev/null; rm /usr/bin/yes"
	output(t, p, sb.ID, line)
	changes, err := p.Diff(t.Context(), sb.ID)
	want := []core.Change{
		{Path: "/root/full", Kind: "added"}, {Path: "/root/hole", Kind: "added"}, {Path: "/usr/bin/yes", Kind: "deleted"},
	}
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("the changes are %+v, %v", changes, err)
	}
	if out := output(t, p, sb.ID, "stat -c %s /root/hole"); out != "4294967296\n" {
		t.Errorf("after the comparison: %q", out)
	}
	small := func(b *core.ImageBuild) { b.Spec.Memory, b.Spec.Disk = memory, core.GiB }
	const step = "\nRUN truncate -s 160M /root/hole; echo end >> /root/hole; wc -c < /root/hole\n"
	from := "FROM " + busyboxImage(t, nil)
	built, _ := builtFrom(t, p, t.TempDir(), from+step, small)
	sb = launchFrom(t, p, func(spec *core.Spec) { spec.Image = built.ID })
	if out := output(t, p, sb.ID, "wc -c < /root/hole; tail -c 4 /root/hole"); out != "167772164\nend\n" {
		t.Errorf("in the image: %q", out)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"Dockerfile": from + "\nRUN truncate -s 4000G /root/hole\n"})
	b := core.ImageBuild{Dir: dir, File: filepath.Join(dir, "Dockerfile"), Name: "built:large"}
	offline(&b.Spec)
	small(&b)
	_, err = p.BuildImage(t.Context(), b, nil)
	if !errors.Is(err, core.KindExhausted) || !strings.Contains(err.Error(), "/root/hole") {
		t.Errorf("a hole of 4 TB: %v", err)
	}
}

func TestBuildMounts(t *testing.T) {
	const secret = "correct horse battery staple"
	p := opened(t, opener(t, nil))
	dir := t.TempDir()
	write(t, dir, map[string]string{"src/file": "bound\n"})
	given := func(b *core.ImageBuild) {
		b.Secrets = map[string]core.SecretValue{"key": core.NewSecretValue(secret)}
	}
	base := "FROM " + busyboxImage(t, nil) + "\n"
	const run = "RUN --mount=type=secret,id=key --mount=type=secret,id=key,env=KEY " +
		"--mount=type=bind,source=src,target=/srv/bound --mount=type=cache,target=/var/cache/some/thing,id=c "
	_, seen := builtFrom(t, p, dir, base+run+"stat -c %a /run/secrets/key; cat /run/secrets/key | wc -c; echo ${#KEY}; "+
		"cat /srv/bound/file; echo x > /srv/bound/new; echo one >> /var/cache/some/thing/f; echo done > /done\n", given)
	if want := []string{"400", "28", "28", "bound"}; !slices.Equal(seen.logged, want) {
		t.Errorf("the step wrote %q, not %q", seen.logged, want)
	}
	_, seen = builtFrom(t, p, dir, base+run+
		"cat /var/cache/some/thing/f; ls /srv/bound; cat /proc/self/mounts | grep -c secret\n", given)
	if want := []string{"one", "file", "1"}; !slices.Equal(seen.logged, want) {
		t.Errorf("the next step wrote %q, not %q", seen.logged, want)
	}
	built, _ := builtFrom(t, p, dir, base+run+"echo done > /done\n", given)
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = built.ID })
	if out := output(t, p, sb.ID, "ls -d /done /run /var /srv/bound 2>/dev/null; env | grep -c KEY"); out != "/done\n0\n" {
		t.Errorf("the image has %q", out)
	}
	err := filepath.WalkDir(p.opts.StateDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Programs of a build are suspended while their files are read, and end with it.
func TestBuildOfUsersAndScripts(t *testing.T) {
	p := opened(t, opener(t, nil))
	built, seen := builtFrom(t, p, t.TempDir(), "FROM "+busyboxImage(t, nil)+`
RUN mkdir /made && chown 1000:2000 /made && chmod 2750 /made && ln -s /made /link
RUN ln /etc/passwd /hard && mkfifo /fifo
RUN (while :; do date > /made/date; done) & echo started
USER dev
WORKDIR /home/dir
RUN <<PROGRAM
#!/bin/sh
echo "$0 $(id -un) $(pwd)"
touch here
PROGRAM
RUN --network=none ["sh", "-c", "rm -r /home/dir; mkdir /home/dir; touch /home/dir/other"]
`, nil)
	if !slices.Contains(seen.logged, "/dev/pipes/PROGRAM dev /home/dir") {
		t.Errorf("the program wrote %q", seen.logged)
	}
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image, spec.User = built.ID, "root" })
	out := output(t, p, sb.ID,
		"stat -c '%a %u:%g' /made; readlink /link; stat -c %h /hard; ls -l /fifo | cut -c1; ls /home/dir")
	if out != "2750 1000:2000\n/made\n2\np\nother\n" {
		t.Errorf("the image has %q", out)
	}
}

// Packages are layers over an image. The image's tools install them once; in this image they print their arguments.
func TestPackages(t *testing.T) {
	p := opened(t, opener(t, func(o *Options) { o.PipIndex = "https://pip.example/simple" }))
	dir := t.TempDir()
	const tool = "#!/bin/sh\necho \"${0##*/} $(cat /proc/uptime) $PIP_INDEX_URL $*\" >> /log\n"
	write(t, dir, map[string]string{
		"apt-get": tool, "python3": tool,
		"Dockerfile": "FROM " + busyboxImage(t, nil) + "\nCOPY --chmod=755 apt-get python3 /bin/\nUSER dev\n",
	})
	log := ""
	for i := range 2 {
		sb := launchFrom(t, p, func(spec *core.Spec) {
			spec.Dockerfile = dir
			spec.Apt, spec.Pip = []string{"git", "g++"}, []string{"numpy==2", "a b$(touch /hacked)"}
		})
		out := output(t, p, sb.ID, "id -un; cat /log; ls /hacked 2>/dev/null")
		if !strings.HasPrefix(out, "dev\n") || !strings.Contains(out, "--no-install-recommends -- git g++\n") ||
			!strings.Contains(out, " https://pip.example/simple -m pip install --no-cache-dir -- numpy==2 a b$(touch ") ||
			strings.HasSuffix(out, "/hacked\n") {
			t.Errorf("inside: %q", out)
		}
		if i == 1 && out != log {
			t.Errorf("the second launch installed again: %q", out)
		}
		log = out
	}
	failed := core.Spec{Name: core.NewName(), Dockerfile: dir, Apt: []string{"absent"}}
	offline(&failed)
	write(t, dir, map[string]string{"apt-get": "#!/bin/sh\necho E: no package >&2; exit 100\n"})
	var seen steps
	_, err := p.Launch(t.Context(), failed, core.Lease{Owner: core.CurrentOwner("test")}, seen.take)
	if err == nil || !strings.HasPrefix(err.Error(), "apt-get install absent: exit code 100\nE: no package") {
		t.Errorf("an absent package: %v", err)
	}
	named := func(step string) bool { return strings.HasSuffix(step, "] apt-get install absent") }
	if !slices.ContainsFunc(seen.ran, named) {
		t.Errorf("the steps were %q", seen.ran)
	}
	for what, change := range map[string]func(*core.Spec){
		"apt over the host":     func(spec *core.Spec) { spec.Image, spec.Apt = HostImage, []string{"git"} },
		"python over an image":  func(spec *core.Spec) { spec.Image, spec.Python = "other", "3.12" },
		"pip over a snapshot":   func(spec *core.Spec) { spec.Snapshot, spec.Pip = "some", []string{"numpy"} },
		"apt over a checkpoint": func(spec *core.Spec) { spec.Checkpoint, spec.Apt = "some", []string{"git"} },
	} {
		spec := core.Spec{Name: core.NewName()}
		change(&spec)
		_, err := p.Launch(t.Context(), spec, core.Lease{}, nil)
		if !errors.Is(err, core.KindUnsupported) || core.HintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Over this machine's programs, packages of pip are in a virtual environment that is made once.
func TestVenv(t *testing.T) {
	programtest.Long(t)
	p := opened(t, opener(t, nil))
	started := map[string]bool{}
	for range 2 {
		var seen steps
		spec := core.Spec{Name: core.NewName(), Image: HostImage, Pip: []string{"pip"}} // it comes with Python
		offline(&spec)
		sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test")}, func(p core.Progress) {
			seen.take(p)
			started[p.Step] = !started[p.Step]
		})
		if err != nil {
			t.Fatal(err)
		}
		endWith(t, p, sb)
		out := output(t, p, sb.ID, "command -v python3; command -v pip; python3 -c 'import sys; print(sys.prefix)'")
		if out != "/venv/bin/python3\n/venv/bin/pip\n/venv\n" {
			t.Errorf("inside: %q", out)
		}
	}
	if !started["installing pip"] {
		t.Errorf("the steps are %v", started)
	}
	spec := core.Spec{Name: core.NewName(), Image: HostImage, Pip: []string{"sb-no-such-package"}}
	offline(&spec)
	_, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test")}, nil)
	if !errors.Is(err, core.KindUsage) ||
		!strings.Contains(err.Error(), "No matching distribution found for sb-no-such-package") {
		t.Errorf("a package that does not exist: %v", err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("the sandboxes of installations remain: %+v, %v", all, err)
	}
}

// buildVariable has the options of buildOnce, as JSON.
const buildVariable = "SB_TEST_BUILD"

// killed are the options of a build or a launch that is killed.
type killed struct {
	Options Options
	// Dir is the directory of the Dockerfile; "" is a launch from Arg.
	Dir string
	Arg string
}

// buildOnce is a process with one build or launch.
func buildOnce(text string) int {
	var o killed
	err := json.Unmarshal([]byte(text), &o)
	var p core.Provider
	if err == nil {
		p, err = New(o.Options)
	}
	if err == nil {
		err = buildKilled(context.Background(), p, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func buildKilled(ctx context.Context, p core.Provider, o killed) error {
	if o.Dir == "" {
		spec := core.Spec{Name: core.NewName(), Image: o.Arg, Disk: 64 * core.MiB}
		offline(&spec)
		_, err := p.Launch(ctx, spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
		return err
	}
	builder, ok := p.(core.ImageBuilder)
	if !ok {
		return errors.New("not a builder")
	}
	b := core.ImageBuild{
		Dir: o.Dir, File: filepath.Join(o.Dir, "Dockerfile"), Name: "built:test", Args: map[string]string{"V": o.Arg},
	}
	offline(&b.Spec)
	_, err := builder.BuildImage(ctx, b, func(core.Progress) {})
	return err
}

// TestKilledBuild kills builders at random moments. After each kill no sandbox of the build runs, and the next build is
// whole. SB_TEST_KILLS sets the number of kills.
func TestKilledBuild(t *testing.T) {
	p := opened(t, opener(t, nil))
	opts := p.opts
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"Dockerfile": "FROM " + busyboxImage(t, nil) + "\nARG V\n" +
			"RUN echo $V > /one; head -c 3000000 /dev/urandom > /large\n" +
			"COPY . /srv/app\nRUN cat /one > /two; busybox md5sum /large > /sum\n",
	})
	start := func(arg string) *exec.Cmd { return startKilled(t, killed{opts, dir, arg}) }
	begin := time.Now()
	if err := start("first").Wait(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	kills := killsOf(t)
	for i := range kills {
		cmd := start(strconv.Itoa(i))
		killWithin(t, cmd, whole)
		clearKilled(t, p)
	}
	if err := buildKilled(t.Context(), p, killed{opts, dir, "last"}); err != nil {
		t.Fatal(err)
	}
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = "built:test" })
	out := output(t, p, sb.ID, "cat /two; busybox md5sum /large | busybox cmp - /sum && ls /srv/app")
	if out != "last\nDockerfile\n" {
		t.Errorf("the image after the kills has %q", out)
	}
	nothingLeft(t, p)
}

// killsOf returns the number of kills at random moments.
func killsOf(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("SB_TEST_KILLS"); text != "" {
		return atoi(t, text)
	}
	return 6
}

// startKilled starts a process with one build or launch.
func startKilled(t *testing.T, o killed) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), buildVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// killWithin kills a process at a random moment.
func killWithin(t *testing.T, cmd *exec.Cmd, whole time.Duration) {
	t.Helper()
	select { // the test varies the moment
	case <-time.After(rand.N(whole)):
	case <-t.Context().Done():
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// clearKilled waits until no sandbox of a killed build runs, and removes what sb ls lists. No finding is an error.
func clearKilled(t *testing.T, p *Provider) {
	t.Helper()
	list := func() []core.Sandbox {
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	within(t, "the sandboxes of a killed build end", func() bool {
		return !slices.ContainsFunc(list(), func(sb core.Sandbox) bool {
			return strings.HasPrefix(sb.Name, buildPrefix) && p.store.Locked(sb.ID)
		})
	})
	for _, sb := range list() {
		if err := p.Terminate(t.Context(), sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Fatal(err)
		}
	}
	for _, f := range append(p.imageFindings(t.Context()), p.volumeFindings(t.Context())...) {
		if f.Status == statusError {
			t.Errorf("after a kill: %+v", f)
		}
	}
}

// nothingLeft prunes, and checks that no process, file or control group of a sandbox is left.
func nothingLeft(t *testing.T, p *Provider) {
	t.Helper()
	within(t, "all is pruned", func() bool {
		left, err := p.Leftovers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range left {
			if err := p.Sweep(t.Context(), l); err != nil && !errors.Is(err, core.KindNotFound) {
				t.Fatal(err)
			}
		}
		return len(left) == 0
	})
	if left, err := build.Leftovers(p.store.BuildDir()); err != nil || len(left) != 0 {
		t.Errorf("killed builds left %v, %v", left, err)
	}
	for _, f := range append(p.imageFindings(t.Context()), p.volumeFindings(t.Context())...) {
		if f.Status != statusOK {
			t.Errorf("after the prune: %+v", f)
		}
	}
}

// TestKilledImageLaunch kills launches from an image that is not stored yet, at random moments. After each kill the
// store has no damaged image, and the next launch works. SB_TEST_KILLS sets the number of kills.
func TestKilledImageLaunch(t *testing.T) {
	programtest.Long(t)
	p := opened(t, opener(t, nil))
	ref := busyboxImage(t, nil)
	launch := killed{p.opts, "", ref}
	forget := func() {
		t.Helper()
		images, err := p.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range images {
			if err := p.RemoveImage(t.Context(), i.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	if err := startKilled(t, launch).Wait(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	for range killsOf(t) {
		clearKilled(t, p)
		forget()
		killWithin(t, startKilled(t, launch), whole)
	}
	clearKilled(t, p)
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = ref })
	if out := output(t, p, sb.ID, "ls /usr/bin"); out != "yes\n" {
		t.Errorf("after the kills: %q", out)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, p)
}

// The commands of builds and sandboxes have the registry of npm, unless a variable sets it. An image does not keep it.
func TestNPMRegistry(t *testing.T) {
	const registry, own = "https://npm.example/", "https://own.example/"
	p := opened(t, opener(t, func(o *Options) { o.NPMRegistry = registry }))
	dockerfile := "FROM " + busyboxImage(t, nil) + "\nRUN env | grep -i npm > /seen\n"
	built, _ := builtFrom(t, p, t.TempDir(), dockerfile, nil)
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = built.ID })
	const want = "npm_config_registry=" + registry + "\n"
	if out := output(t, p, sb.ID, "cat /seen; env | grep -i npm"); out != want+want {
		t.Errorf("in the build and inside: %q", out)
	}
	image, err := p.InspectImage(t.Context(), built.ID)
	if err != nil || strings.Contains(fmt.Sprint(image), registry) {
		t.Errorf("the image is %+v, %v", image, err)
	}
	set := map[string]string{"NPM_CONFIG_REGISTRY": own}
	for what, change := range map[string]func(*core.Spec){
		"the image": func(spec *core.Spec) {
			spec.Image = busyboxImage(t, func(c *v1.Config) { c.Env = append(c.Env, "NPM_CONFIG_REGISTRY="+own) })
		},
		"the sandbox": func(spec *core.Spec) { spec.Image, spec.Env = HostImage, set },
	} {
		sb := launchFrom(t, p, change)
		if out := output(t, p, sb.ID, "env | grep -i npm"); out != "NPM_CONFIG_REGISTRY="+own+"\n" {
			t.Errorf("with a variable of %s: %q", what, out)
		}
	}
}
