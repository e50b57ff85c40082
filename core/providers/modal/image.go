package modal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// defaultImage is the image of a spec that names none.
const defaultImage = "debian:12-slim"

// defaultPython is the Python version for pip packages if the spec names none.
const defaultPython = "3.12"

// imagePrefix is the prefix of the ids of Modal's images.
const imagePrefix = "im-"

// ofModal reports whether an image is stored at Modal, not in a registry.
func ofModal(image string) bool {
	return strings.HasPrefix(image, imagePrefix) || strings.HasPrefix(image, publishedPrefix)
}

// recipe is a base image and the commands that build on it.
type recipe struct {
	// Base names an image of a registry. ID and Published name images at Modal.
	Base, ID, Published string
	// Access names the secret at Modal with the credentials of Base's registry.
	Access   string `json:",omitempty"`
	Commands []string
}

// recipeOf returns the recipe for a launch spec. KindUsage: the Dockerfile cannot be read or needs files of this
// machine. KindUnsupported: it requests a Python version on top of another image.
func recipeOf(spec core.Spec) (recipe, error) {
	r := recipe{Base: defaultImage}
	if spec.Python != "" && (spec.Snapshot+spec.Dockerfile != "" || spec.Image != "" && spec.Image != defaultImage) {
		return r, core.Errorf(
			core.KindUnsupported, "modal.launch", spec.Python, "a Python version comes with an image and cannot be "+
				"installed on another",
		).
			WithHint("leave --python out and use an image that has it, such as python:%s-slim", spec.Python)
	}
	switch {
	case strings.HasPrefix(spec.Snapshot, imagePrefix):
		r = recipe{ID: spec.Snapshot}
	case spec.Snapshot != "":
		r = recipe{Published: snapshotName(spec.Snapshot)}
	case spec.Dockerfile != "":
		file := spec.Dockerfile
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file = filepath.Join(file, "Dockerfile")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return r, core.Wrap("modal.launch", file, err)
		}
		if r, err = readDockerfile(string(text)); err != nil {
			return r, err
		}
	case strings.HasPrefix(spec.Image, imagePrefix):
		r = recipe{ID: spec.Image}
	case strings.HasPrefix(spec.Image, publishedPrefix):
		r = recipe{Published: strings.TrimPrefix(spec.Image, publishedPrefix)}
	case spec.Image != "" && spec.Image != defaultImage:
		r.Base = spec.Image
	case spec.Python != "" || len(spec.Pip) > 0:
		version := spec.Python
		if version == "" {
			version = defaultPython
		}
		r.Base = "python:" + version + "-slim"
	}
	if r.Base != "" {
		m, err := modalspec.Of(spec)
		if err != nil {
			return r, err
		}
		r.Access = m.ImageSecret
	}
	if len(spec.Apt) > 0 {
		r.Commands = append(r.Commands,
			"RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "+
				quoteAll(spec.Apt)+" && rm -rf /var/lib/apt/lists/*")
	}
	if len(spec.Pip) > 0 {
		r.Commands = append(r.Commands, "RUN python -m pip install --no-cache-dir "+quoteAll(spec.Pip))
	}
	return r, nil
}

// quoteAll quotes words for a shell command.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// key returns the recipe's key in the cache.
func (r recipe) key() string {
	text, _ := json.Marshal(r)
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:16])
}

// image returns the image of the recipe and builds it if necessary. The build log goes to progress.
func (r recipe) image(
	ctx context.Context, c *client.Client, app *sdk.App, found *client.Lookups, progress core.ProgressFunc,
) (*sdk.Image, error) {
	switch {
	case r.ID != "" && len(r.Commands) == 0:
		return &sdk.Image{ImageID: r.ID}, nil
	case r.Published != "" && len(r.Commands) == 0: // a name can refer to another image later
		return c.SDK.Images.FromName(ctx, r.Published, nil)
	case r.Published != "":
		return r.build(ctx, c, app, found, progress)
	}
	id, err := found.ID(client.CachedImages, r.key(), func() (string, error) {
		built, err := r.build(ctx, c, app, found, progress)
		if err != nil {
			return "", err
		}
		return built.ImageID, nil
	})
	return &sdk.Image{ImageID: id}, err
}

// build builds the image on Modal, which builds each recipe once. An error contains the end of the build log.
func (r recipe) build(
	ctx context.Context, c *client.Client, app *sdk.App, found *client.Lookups, progress core.ProgressFunc,
) (*sdk.Image, error) {
	base, err := r.base(ctx, c, found)
	if err != nil {
		return nil, err
	}
	log := &buildLog{progress: progress}
	log.step("building the image")
	witnessed := client.WithWitness(ctx, client.Witness{Logs: log.take})
	built, err := base.DockerfileCommands(r.Commands, nil).Build(witnessed, app, nil)
	if e, ok := errors.AsType[sdk.RemoteError](err); ok && log.tail != "" {
		return nil, core.Errorf(core.KindUsage, "modal.launch", "", "%s\n%s",
			strings.TrimSpace(e.Exception), strings.TrimSpace(log.tail)).
			WithHint("read the output of the failed step, and correct the Dockerfile or the package's name")
	}
	return built, err
}

// buildLog reports the lines of a build as progress and keeps the end of the log for an error.
type buildLog struct {
	progress core.ProgressFunc
	tail     string
}

// buildLogEnd is the size of the kept end of a log, in bytes.
const buildLogEnd = 1 << 10

func (b *buildLog) take(text string) {
	b.tail += text
	if over := len(b.tail) - buildLogEnd; over > 0 {
		b.tail = strings.ToValidUTF8(b.tail[over:], "")
	}
	for line := range strings.Lines(text) {
		b.step(strings.TrimSpace(line))
	}
}

func (b *buildLog) step(step string) {
	if b.progress != nil && step != "" {
		b.progress(core.Progress{Step: step})
	}
}

// base returns the image that the recipe starts from. The host name of a private registry determines its kind.
func (r recipe) base(ctx context.Context, c *client.Client, found *client.Lookups) (*sdk.Image, error) {
	switch {
	case r.ID != "":
		return c.SDK.Images.FromID(ctx, r.ID, nil)
	case r.Published != "":
		return c.SDK.Images.FromName(ctx, r.Published, nil)
	case r.Access == "":
		return c.SDK.Images.FromRegistry(r.Base, nil), nil
	}
	secret, err := found.Secret(ctx, r.Access)
	if err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(r.Base, "/")
	switch {
	case strings.Contains(host, ".dkr.ecr."):
		return c.SDK.Images.FromAwsEcr(r.Base, secret, nil), nil
	case host == "gcr.io" || strings.HasSuffix(host, ".gcr.io") || strings.HasSuffix(host, "-docker.pkg.dev"):
		return c.SDK.Images.FromGcpArtifactRegistry(r.Base, secret, nil), nil
	}
	return c.SDK.Images.FromRegistry(r.Base, &sdk.ImageFromRegistryParams{Secret: secret}), nil
}
