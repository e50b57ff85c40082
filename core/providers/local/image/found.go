package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
)

const (
	// maxManifest and maxConfig bound the documents of an image in bytes. Registries accept manifests up to 4 MiB.
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	// maxLayers bounds the layers of an image. Overlay file systems accept 128.
	maxLayers = 1000
)

// found is an image in a registry, file or directory. Its manifest is verified; its blobs are not.
type found struct {
	id       v1.Hash
	manifest *v1.Manifest
	// blob opens a blob. Its content is not verified.
	blob func(ctx context.Context, of v1.Descriptor) (io.ReadCloser, error)
	// remote means that a blob is downloaded before it is used.
	remote bool
	// unpacked means that the layers' digests are those of the uncompressed content.
	unpacked bool
	close    func() error
}

// newFound parses and checks the manifest of an image for this machine's platform.
func newFound(raw []byte, from found) (*found, error) {
	manifest := &v1.Manifest{}
	if err := json.Unmarshal(raw, manifest); err != nil {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "the manifest is invalid: %w", err)
	}
	if !manifest.Config.MediaType.IsConfig() {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "it is %q, not an image", manifest.Config.MediaType)
	}
	if len(manifest.Layers) > maxLayers {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "the image has %d layers, more than %d",
			len(manifest.Layers), maxLayers)
	}
	for _, l := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		if l.Digest.Algorithm != "sha256" || len(l.Digest.Hex) != sha256.Size*2 || l.Size < 0 {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the digest %q is not sha256", l.Digest)
		}
	}
	for _, l := range manifest.Layers {
		if !l.MediaType.IsLayer() {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the layer type %q is unknown", l.MediaType)
		}
	}
	from.id, from.manifest = digest(raw), manifest
	return &from, nil
}

// digest returns the digest of a document.
func digest(document []byte) v1.Hash {
	sum := sha256.Sum256(document)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// platform returns this machine's platform, as in "linux/amd64". Sandboxes run Linux.
func platform() string { return "linux/" + runtime.GOARCH }

// choose returns the entry of an index for this machine's platform.
func choose(index *v1.IndexManifest) (v1.Descriptor, error) {
	var others []string
	for _, one := range index.Manifests {
		switch p := one.Platform; {
		case p == nil && len(index.Manifests) == 1:
			return one, nil
		case p == nil || p.OS == "unknown":
		case p.OS+"/"+p.Architecture == platform():
			return one, nil
		default:
			others = append(others, p.OS+"/"+p.Architecture)
		}
	}
	slices.Sort(others)
	return v1.Descriptor{}, core.Errorf(core.KindNotFound, "local.image", "", "there is no image for %s, only for %s",
		platform(), strings.Join(slices.Compact(others), ", "))
}

// configuration reads and checks the configuration. raw is its text.
func (f *found) configuration(ctx context.Context) (file *v1.ConfigFile, raw []byte, err error) {
	if f.manifest.Config.Size > maxConfig {
		return nil, nil, core.Errorf(core.KindUsage, "local.image", "", "the configuration has %s",
			core.Bytes(f.manifest.Config.Size))
	}
	blob, err := f.blob(ctx, f.manifest.Config)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = blob.Close() }()
	raw, err = io.ReadAll(io.LimitReader(blob, f.manifest.Config.Size+1))
	if err != nil {
		return nil, nil, err
	}
	if digest(raw) != f.manifest.Config.Digest {
		return nil, nil, mismatch("the configuration", f.manifest.Config.Digest)
	}
	file, err = v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, core.Errorf(core.KindUsage, "local.image", "", "the configuration is invalid: %w", err)
	}
	if has := file.OS + "/" + file.Architecture; file.Architecture != "" && has != platform() {
		return nil, nil, core.Errorf(core.KindNotFound, "local.image", "", "there is no image for %s, only for %s",
			platform(), has)
	}
	if len(file.RootFS.DiffIDs) != len(f.manifest.Layers) {
		return nil, nil, core.Errorf(core.KindUsage, "local.image", "", "the configuration has %d layers, the manifest %d",
			len(file.RootFS.DiffIDs), len(f.manifest.Layers))
	}
	if err := withoutNUL(file.Config); err != nil {
		return nil, nil, err
	}
	return file, raw, nil
}

// withoutNUL refuses a configuration with a NUL byte, which no program's argument or variable can have.
func withoutNUL(c v1.Config) error {
	for name, values := range map[string][]string{
		"an argument": slices.Concat(c.Entrypoint, c.Cmd, c.Shell), "a variable": c.Env,
		"the user or the directory": {c.User, c.WorkingDir},
	} {
		if slices.ContainsFunc(values, func(value string) bool { return strings.ContainsRune(value, 0) }) {
			return core.Errorf(core.KindUsage, "local.image", "", "the configuration is invalid: %s has a NUL byte", name)
		}
	}
	return nil
}

// mismatch returns the error for content with another digest.
func mismatch(what string, want v1.Hash) error {
	return core.Errorf(core.KindUnavailable, "local.image", "", "%s is damaged: its digest is not %s", what, want)
}

// converted returns the parts of a configuration that the store keeps.
func converted(file *v1.ConfigFile) (Config, time.Time) {
	c := file.Config
	return Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir,
		StopSignal: c.StopSignal, ExposedPorts: slices.Sorted(maps.Keys(c.ExposedPorts)), Labels: c.Labels,
		Volumes: slices.Sorted(maps.Keys(c.Volumes)), Shell: c.Shell, Healthcheck: c.Healthcheck,
	}, file.Created.Time
}
