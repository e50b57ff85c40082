package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// forgetBuilds removes the images that a test has built, after its sandboxes. A forced removal of an image would remove
// its containers, but leave their volumes.
func forgetBuilds(t *testing.T, c *client.Client) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		found, err := c.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).
			Add("label", labelBuild+"="+version)})
		if err != nil {
			t.Error(err)
		}
		for _, image := range found.Items {
			for _, name := range image.RepoTags {
				if name == "<none>:<none>" { // another build took its name
					name = image.ID
				}
				eventually(t, "the image "+name+" is removed", func() bool { // Podman releases it late
					_, err := c.ImageRemove(ctx, name, client.ImageRemoveOptions{})
					return err == nil || errdefs.IsNotFound(err)
				})
			}
		}
	})
}

func write(t *testing.T, dir string, files map[string]string) {
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

func TestBuild(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		forgetBuilds(t, e.raw(t))
		dir := t.TempDir()
		write(t, dir, map[string]string{
			"Dockerfile": "FROM " + testImage + "\nCOPY app /app\nRUN echo built > /app/out; date +%s%N > /app/when\nENV " +
				"FROM_FILE=1\nWORKDIR /app\nUSER dev\n",
			"app/main": "main\n", "app/secret.env": "s3cret\n", ".dockerignore": "**/*.env\n",
		})
		when := ""
		for range 2 {
			var steps []string
			spec := core.Spec{
				Name: core.NewName(), Dockerfile: filepath.Join(dir, "Dockerfile"), Network: core.Network{Mode: core.NetworkNone},
			}
			sb, err := p.Launch(t.Context(), spec, lease(spec), func(step core.Progress) { steps = append(steps, step.Step) })
			if err != nil {
				t.Fatal(err)
			}
			out, _ := sh(t, p, sb.ID, "pwd; id -un; cat main out; ls secret.env 2>/dev/null; echo $FROM_FILE")
			if out != "/app\ndev\nmain\nbuilt\n1\n" {
				t.Errorf("inside: %q", out)
			}
			now, _ := sh(t, p, sb.ID, "cat when")
			if when != "" && now != when {
				t.Error("the second build did not take the first one's layers")
			}
			when = now
			if !slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, "COPY") }) {
				t.Errorf("the steps are %q", steps)
			}
			end(t, p, sb.ID)
		}
		write(t, dir, map[string]string{"Dockerfile": "FROM " + testImage + "\nWORKDIR /not/there/made\n"})
		sb := box(t, p, func(spec *core.Spec) { spec.Image, spec.Dockerfile = "", dir })
		if out, code := run(t, p, sb.ID, core.ExecSpec{Command: []string{"pwd"}}); out != "/not/there/made\n" || code != 0 {
			t.Errorf("where its image works: %q, %d", out, code)
		}
		end(t, p, sb.ID)
		write(t, dir, map[string]string{"Dockerfile": "FROM " + testImage + "\nRUN echo the reason; exit 9\n"})
		_, err := p.Launch(t.Context(), core.Spec{Name: core.NewName(), Dockerfile: dir}, core.Lease{}, nil)
		wantKind(t, err, core.KindUsage)
		if err == nil || !strings.Contains(err.Error(), "the reason") {
			t.Errorf("a build that fails says %v", err)
		}
		_, err = p.Launch(
			t.Context(), core.Spec{Name: core.NewName(), Dockerfile: filepath.Join(dir, "no", "Dockerfile")}, core.Lease{}, nil,
		)
		wantKind(t, err, core.KindNotFound)
	})
}

// Another sb on the engine may build different content from the same path. Each uses its own image.
func TestBuildsOfOnePath(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		forgetBuilds(t, e.raw(t))
		dir := t.TempDir()
		var ids []string
		for _, what := range []string{"one", "two"} {
			write(t, dir, map[string]string{"Dockerfile": "FROM " + testImage + "\nRUN echo " + what + " > /what\n"})
			image, err := p.store(p.engine).Get(t.Context(), core.Spec{Dockerfile: dir}, func(core.Progress) {})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, image.ID)
		}
		sb := box(t, p, func(spec *core.Spec) { spec.Image = ids[0] })
		if out, _ := sh(t, p, sb.ID, "cat /what"); out != "one\n" {
			t.Errorf("the first build is now %q", out)
		}
		end(t, p, sb.ID)
	})
}

// Packages are layers. The image's own tools install them once; in this image, they only print their arguments.
func TestPackages(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		forgetBuilds(t, e.raw(t))
		dir := t.TempDir()
		tool := "#!/bin/sh\necho \"$(basename $0) $(date +%s%N) $*\" >> /log\n"
		write(t, dir, map[string]string{
			"apt-get": tool, "python3": tool,
			"Dockerfile": "FROM " + testImage + "\nCOPY apt-get python3 /bin/\nRUN chmod 755 /bin/apt-get /bin/python3; ln -s " +
				"busybox /bin/basename\nUSER dev\n",
		})
		log := ""
		for range 2 {
			sb := box(t, p, func(spec *core.Spec) {
				spec.Image, spec.Dockerfile = "", dir
				spec.Apt, spec.Pip = []string{"git", "g++"}, []string{"numpy==2", "a b$(touch /hacked)"}
			})
			out, _ := sh(t, p, sb.ID, "id -un; cat /log; ls /hacked 2>/dev/null")
			if !strings.HasPrefix(out, "dev\n") || !strings.Contains(out, "--no-install-recommends -- git g++\n") ||
				!strings.Contains(out, "-m pip install --no-cache-dir -- numpy==2 a b$(touch /hacked)\n") ||
				strings.HasSuffix(out, "/hacked\n") {
				t.Errorf("inside: %q", out)
			}
			if log != "" && out != log {
				t.Errorf("the second launch installed again: %q", out)
			}
			log = out
		}
		_, err := p.Launch(t.Context(), core.Spec{Name: core.NewName(), Image: "other", Python: "3.12"}, core.Lease{}, nil)
		wantKind(t, err, core.KindUnsupported)
	})
}
