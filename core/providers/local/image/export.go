package image

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// ExportOptions are the options of Store.Export.
type ExportOptions struct {
	Format core.ImageFormat
	// Names are the references in the archive; none uses the one given, and for an id those of the image.
	Names []string
	// Layers are files with further layers, tar archives, from the lowest to the highest. Changed is when their files
	// were written.
	Layers  []string
	Changed time.Time
	// Title is the image's name in messages; "" is its reference.
	Title string
	// Progress receives the steps; it may be nil.
	Progress core.ProgressFunc
}

// Export writes an image as an archive that other tools load. Its files are one layer, because the store has no others.
// The same image always gives the same bytes.
func (s *Store) Export(ctx context.Context, ref string, opts ExportOptions, to io.Writer) error {
	title := cmp.Or(opts.Title, ref)
	made, err := s.assemble(ctx, ref, opts)
	if err != nil {
		return classify(title, err)
	}
	defer made.release()
	names := opts.Names
	if t, err := parse(ref); len(names) == 0 && err == nil && slices.Contains(made.image.Refs, t.key()) {
		names = []string{t.key()}
	} else if len(names) == 0 {
		names = made.image.Refs
	}
	out := tar.NewWriter(to)
	if opts.Format == core.ImageDocker {
		err = made.writeDocker(ctx, names, out)
	} else {
		err = made.writeOCI(ctx, names, out)
	}
	if err == nil {
		err = out.Close()
	}
	return classify(title, err)
}

// assembled is an image as other tools know it.
type assembled struct {
	image    Image
	config   []byte
	manifest []byte
	layers   []assembledLayer
	release  func()
}

type assembledLayer struct {
	v1.Descriptor

	write func(ctx context.Context, to io.Writer) error
}

// assemble prepares an image for other tools. The caller releases the result.
func (s *Store) assemble(ctx context.Context, ref string, opts ExportOptions) (_ *assembled, err error) {
	found, err := s.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	release, err := s.Hold(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	r, err := s.read(found.ID[len("sha256:"):], nil)
	if err != nil {
		return nil, err
	}
	a := &assembled{image: found, release: release}
	a.layers = append(a.layers, assembledLayer{write: func(ctx context.Context, to io.Writer) error {
		return copyFile(found.Path, func(f *os.File) error { return layer.Archive(ctx, f, to) })
	}})
	for _, file := range opts.Layers {
		a.layers = append(a.layers, assembledLayer{write: func(_ context.Context, to io.Writer) error {
			return copyFile(file, func(f *os.File) error {
				_, err := io.Copy(to, f)
				return err
			})
		}})
	}
	for i := range a.layers {
		if opts.Progress != nil {
			opts.Progress(core.Progress{Step: "reading " + cmp.Or(opts.Title, ref)})
		}
		sum := &sizer{sum: sha256.New()}
		if err := a.layers[i].write(ctx, sum); err != nil {
			return nil, err
		}
		a.layers[i].Descriptor = v1.Descriptor{
			MediaType: types.OCIUncompressedLayer, Size: sum.size,
			Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.sum.Sum(nil))},
		}
	}
	return a, a.describe(r, opts.Changed)
}

// copyFile opens a file for a function.
func copyFile(name string, do func(*os.File) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return do(f)
}

// sizer counts and hashes bytes.
type sizer struct {
	size int64
	sum  hash.Hash
}

func (s *sizer) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	return s.sum.Write(p)
}

// describe makes the configuration and the manifest. changed is the time of the layers over the image.
func (a *assembled) describe(r record, changed time.Time) (err error) {
	file, err := r.configFile()
	if err != nil {
		return err
	}
	file.RootFS = v1.RootFS{Type: "layers"}
	file.History = nil
	base := file.Created
	if !changed.IsZero() {
		file.Created = v1.Time{Time: changed.UTC()}
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for i, l := range a.layers {
		file.RootFS.DiffIDs = append(file.RootFS.DiffIDs, l.Digest)
		history := v1.History{Created: base, CreatedBy: "sb: the files of an image"}
		if i > 0 {
			history = v1.History{Created: file.Created, CreatedBy: "sb: the changes of a snapshot"}
		}
		file.History = append(file.History, history)
		manifest.Layers = append(manifest.Layers, l.Descriptor)
	}
	if a.config, err = json.Marshal(file); err != nil {
		return err
	}
	manifest.Config = v1.Descriptor{
		MediaType: types.OCIConfigJSON, Size: int64(len(a.config)), Digest: digest(a.config),
	}
	a.manifest, err = json.Marshal(manifest)
	return err
}

// configFile returns the configuration of an image as other tools know it.
func (r record) configFile() (*v1.ConfigFile, error) {
	file := &v1.ConfigFile{}
	if len(r.Source) > 0 {
		return file, json.Unmarshal(r.Source, file)
	}
	c := r.Config
	file.OS, file.Architecture = "linux", platform()[len("linux/"):]
	file.Created = v1.Time{Time: r.Created}
	set := func(keys []string) map[string]struct{} {
		if len(keys) == 0 {
			return nil
		}
		m := map[string]struct{}{}
		for _, k := range keys {
			m[k] = struct{}{}
		}
		return m
	}
	file.Config = v1.Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir,
		StopSignal: c.StopSignal, Labels: c.Labels, ExposedPorts: set(c.ExposedPorts), Volumes: set(c.Volumes),
		Shell: c.Shell, Healthcheck: c.Healthcheck,
	}
	return file, nil
}

// writeOCI writes an OCI layout: https://github.com/opencontainers/image-spec/blob/main/image-layout.md. Like the
// archives of newer versions of "docker save", it has a manifest.json, which all versions of "docker load" need.
func (a *assembled) writeOCI(ctx context.Context, names []string, out *tar.Writer) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	entry := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: int64(len(a.manifest)), Digest: digest(a.manifest)}
	for _, name := range names {
		t, err := parse(name)
		if err != nil || t.place != "" {
			continue // a path on this machine is no name elsewhere
		}
		named := entry
		// Docker and Podman read the first, other tools the second.
		named.Annotations = map[string]string{
			"io.containerd.image.name": t.named.String(), "org.opencontainers.image.ref.name": t.named.String(),
		}
		index.Manifests = append(index.Manifests, named)
	}
	if len(index.Manifests) == 0 {
		index.Manifests = append(index.Manifests, entry)
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return err
	}
	saved := savedImage{Config: blobName(digest(a.config)), RepoTags: tagsOf(names)}
	for _, l := range a.layers {
		saved.Layers = append(saved.Layers, blobName(l.Digest))
	}
	compatible, err := json.Marshal([]savedImage{saved})
	if err != nil {
		return err
	}
	for _, doc := range []struct {
		name string
		text []byte
	}{
		{"manifest.json", compatible},
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", raw},
		{blobName(digest(a.config)), a.config},
		{blobName(digest(a.manifest)), a.manifest},
	} {
		if err := addFile(out, doc.name, doc.text); err != nil {
			return err
		}
	}
	for _, l := range a.layers {
		if err := a.addLayer(ctx, out, blobName(l.Digest), l); err != nil {
			return err
		}
	}
	return nil
}

func blobName(of v1.Hash) string { return path.Join("blobs", of.Algorithm, of.Hex) }

// writeDocker writes the archive of "docker save".
func (a *assembled) writeDocker(ctx context.Context, names []string, out *tar.Writer) error {
	saved := savedImage{Config: digest(a.config).Hex + ".json", RepoTags: tagsOf(names)}
	for _, l := range a.layers {
		saved.Layers = append(saved.Layers, l.Digest.Hex+"/layer.tar")
	}
	raw, err := json.Marshal([]savedImage{saved})
	if err != nil {
		return err
	}
	if err := addFile(out, "manifest.json", raw); err != nil {
		return err
	}
	if err := addFile(out, saved.Config, a.config); err != nil {
		return err
	}
	for i, l := range a.layers {
		if err := a.addLayer(ctx, out, saved.Layers[i], l); err != nil {
			return err
		}
	}
	return nil
}

// tagsOf returns the names that a tag of another tool can have.
func tagsOf(names []string) []string {
	tags := []string{}
	for _, name := range names {
		t, err := parse(name)
		if err != nil || t.place != "" {
			continue
		}
		if _, pinned := digested(t); !pinned {
			tags = append(tags, t.key())
		}
	}
	return tags
}

func addFile(out *tar.Writer, name string, content []byte) error {
	if err := out.WriteHeader(fileHeader(name, int64(len(content)))); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

func fileHeader(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}
}

func (a *assembled) addLayer(ctx context.Context, out *tar.Writer, name string, l assembledLayer) error {
	if err := out.WriteHeader(fileHeader(name, l.Size)); err != nil {
		return err
	}
	return l.write(ctx, out)
}
