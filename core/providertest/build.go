package providertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// busybox is Debian's static busybox, the only program of the images that the suite builds.
const busybox = "/bin/busybox"

// buildStages is a Dockerfile whose image is made by two stages over a third one.
const buildStages = `FROM scratch AS base
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
FROM base AS maker
ARG NAME=nameless
RUN mkdir /made && echo "by $NAME" > /made/name && head -c 16 /dev/urandom | md5sum > /made/when
FROM base
COPY passwd /etc/passwd
COPY --from=maker --chown=1000:1000 /made /srv/made
ENV COLOR=red
WORKDIR /srv/made
USER dev
ENTRYPOINT ["/bin/false"]
`

// buildFailing is a Dockerfile whose last step prints what the step before wrote, and fails.
const buildFailing = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN head -c 16 /dev/urandom | md5sum > /when
RUN echo "made at [$(cat /when)]"; exit 9
`

// builds builds images of busybox alone, so that no registry is needed.
func (s *suite) builds(t *testing.T) {
	p := s.provider(t)
	builder, ok := optional[core.ImageBuilder](t, p)
	if !ok || !p.Capabilities().Can(core.CapBuild) {
		return // a builder without CapBuild imitates builds
	}
	dir := t.TempDir()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("the static busybox of Debian is needed: %v", err)
	}
	put := func(name string, content []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("busybox", program, 0o755)
	put("passwd", []byte("root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/srv:/bin/sh\n"), 0o644)
	tag := core.NewName()
	imageOf := func(by string) string { return "localhost/sb-suite-" + by + ":" + tag }
	build := func(text, name string) (core.ImageInfo, error) {
		t.Helper()
		put("Dockerfile", []byte(text), 0o644)
		b := core.ImageBuild{Dir: dir, File: filepath.Join(dir, "Dockerfile"), Name: imageOf(name)}
		b.Args = map[string]string{"NAME": name}
		b.Spec.Network = core.Network{Mode: core.NetworkNone}
		return builder.BuildImage(t.Context(), b, func(core.Progress) {})
	}
	when := ""
	for i, by := range []string{"suite", "suite", "other"} {
		built, err := build(buildStages, by)
		if err != nil {
			t.Fatal(err)
		}
		if built.ID == "" || built.Provider != p.Name() {
			t.Errorf("the image is %+v", built)
		}
		sb := launch(t, p, func(spec *core.Spec) { spec.Image, spec.Pull = imageOf(by), core.PullNever })
		r := sh(t, p, sb.ID, `id -un; pwd; stat -c '%u:%g' name; cat name; echo "$COLOR"; ls /bin/busybox`)
		if want := fmt.Sprintf("dev\n/srv/made\n1000:1000\nby %s\nred\n/bin/busybox\n", by); r.out != want {
			t.Errorf("in the image: %+v, want %q", r, want)
		}
		now := sh(t, p, sb.ID, "cat when").out
		if cached := now == when; i > 0 && cached != (by == "suite") {
			t.Errorf("build %d: the step's result is cached: %v", i, cached)
		}
		when = now
		if err := p.Terminate(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.failedBuilds(t, build)
	if store, ok := optional[core.ImageStore](t, p); ok {
		for _, by := range []string{"suite", "other"} {
			if err := store.RemoveImage(t.Context(), imageOf(by)); err != nil {
				t.Error(err)
			}
		}
	}
}

// failedBuilds checks the errors of builds.
func (s *suite) failedBuilds(t *testing.T, build func(text, name string) (core.ImageInfo, error)) {
	t.Helper()
	when := ""
	for range 2 {
		_, err := build(buildFailing, "failing")
		wantKind(t, err, core.KindUsage)
		if err == nil {
			return
		}
		_, rest, _ := strings.Cut(err.Error(), "made at [")
		now, _, found := strings.Cut(rest, "]")
		if !found || when != "" && now != when {
			t.Errorf("the step before is not cached, or the output is not in the error: %v", err)
		}
		when = now
	}
	_, err := build("FROM scratch\nCOPY busybox /bin/busybox\nNOSUCH instruction\n", "refused")
	wantKind(t, err, core.KindUsage)
	if err == nil || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "NOSUCH") {
		t.Errorf("an unknown instruction: %v", err)
	}
	_, err = build("FROM scratch\nCOPY missing /\n", "refused")
	if !errors.Is(err, core.KindUsage) && !errors.Is(err, core.KindNotFound) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing file: %v", err)
	}
}
