package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/seed-0724f904/sb/core"
)

// files are the files of an image in a directory or archive.
type files interface {
	// open returns fs.ErrNotExist if there is no regular file of that name.
	open(name string) (content io.ReadCloser, size int64, err error)
	Close() error
}

// findLocal opens an image in a file or directory. It reads files with the user's rights.
func findLocal(t target) (result *found, err error) {
	var in files
	switch t.place {
	case placeOCI, placeDir:
		in, err = openDir(t.path)
	default:
		in, err = openArchive(t.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "local.image", "", "there is no %s", t.path)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = in.Close()
		}
	}()
	switch t.place {
	case placeDir:
		result, err = findDir(in)
	case placeDockerArchive:
		result, err = findDocker(in, t.tag)
	default:
		result, err = findOCI(in, t.tag)
	}
	if err != nil {
		return nil, err
	}
	result.close = in.Close
	return result, nil
}

// document reads a small file.
func document(in files, name string, limit int64) ([]byte, error) {
	content, size, err := in.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "it is not an image of this kind: it has no %s", name)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	if size > limit {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "%s has %s", name, core.Bytes(size))
	}
	return io.ReadAll(io.LimitReader(content, limit))
}

// blobOf returns the function found.blob for files.
func blobOf(in files, name func(v1.Descriptor) string) func(context.Context, v1.Descriptor) (io.ReadCloser, error) {
	return func(_ context.Context, of v1.Descriptor) (io.ReadCloser, error) {
		content, _, err := in.open(name(of))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the image is incomplete: it has no %s", name(of))
		}
		return content, err
	}
}

// findOCI finds an image in an OCI layout:
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
func findOCI(in files, tag string) (*found, error) {
	blobName := func(of v1.Descriptor) string { return path.Join("blobs", of.Digest.Algorithm, of.Digest.Hex) }
	raw, err := document(in, "index.json", maxManifest)
	if err != nil {
		return nil, err
	}
	// An index may contain indexes, one for each tag.
	for range 3 {
		index := &v1.IndexManifest{}
		if err := json.Unmarshal(raw, index); err != nil {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the index is invalid: %w", err)
		}
		if tag != "" {
			index.Manifests = slices.DeleteFunc(index.Manifests, func(d v1.Descriptor) bool {
				return d.Annotations["org.opencontainers.image.ref.name"] != tag
			})
			if len(index.Manifests) == 0 {
				return nil, core.Errorf(core.KindNotFound, "local.image", "", "it has no image of the tag %q", tag)
			}
			tag = ""
		}
		one, err := choose(index)
		if err != nil {
			return nil, err
		}
		if raw, err = document(in, blobName(one), maxManifest); err != nil {
			return nil, err
		}
		if digest(raw) != one.Digest {
			return nil, mismatch("the manifest", one.Digest)
		}
		if !one.MediaType.IsIndex() {
			return newFound(raw, found{blob: blobOf(in, blobName)})
		}
	}
	return nil, core.Errorf(core.KindUsage, "local.image", "", "the index has more than three levels")
}

// findDir finds an image in a directory of "skopeo copy … dir:PATH".
func findDir(in files) (*found, error) {
	raw, err := document(in, "manifest.json", maxManifest)
	if err != nil {
		return nil, err
	}
	return newFound(raw, found{blob: blobOf(in, func(of v1.Descriptor) string { return of.Digest.Hex })})
}

// savedImage is an image in manifest.json of "docker save".
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// savedIn reads manifest.json of "docker save".
func savedIn(in files) ([]savedImage, error) {
	raw, err := document(in, "manifest.json", maxManifest)
	if err != nil {
		return nil, err
	}
	var saved []savedImage
	if err := json.Unmarshal(raw, &saved); err != nil {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "manifest.json is invalid: %w", err)
	}
	return saved, nil
}

// findDocker finds an image in an archive of "docker save". Such an archive has no manifest, so findDocker makes one.
// It has the digests of the uncompressed layers, so that the same archive has the same id everywhere.
func findDocker(in files, tag string) (*found, error) {
	saved, err := savedIn(in)
	if err != nil {
		return nil, err
	}
	if tag != "" {
		saved = slices.DeleteFunc(saved, func(one savedImage) bool {
			return !slices.ContainsFunc(one.RepoTags, func(has string) bool { return sameTag(has, tag) })
		})
	}
	if len(saved) != 1 {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "the archive has %d such images: name one", len(saved)).
			WithHint("docker-archive:FILE:NAME:TAG names an image in an archive")
	}
	config, err := document(in, saved[0].Config, maxConfig)
	if err != nil {
		return nil, err
	}
	parsed := &v1.ConfigFile{}
	if err := json.Unmarshal(config, parsed); err != nil {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "the configuration is invalid: %w", err)
	}
	if len(parsed.RootFS.DiffIDs) != len(saved[0].Layers) {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "the configuration has %d layers, manifest.json %d",
			len(parsed.RootFS.DiffIDs), len(saved[0].Layers))
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Config: v1.Descriptor{
		MediaType: types.DockerConfigJSON, Size: int64(len(config)), Digest: digest(config),
	}}
	names := map[v1.Hash]string{manifest.Config.Digest: saved[0].Config}
	for i, layer := range saved[0].Layers {
		content, size, err := in.open(layer)
		if err != nil {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the archive has no layer %q", layer)
		}
		_ = content.Close()
		manifest.Layers = append(manifest.Layers, v1.Descriptor{
			MediaType: types.DockerUncompressedLayer, Size: size, Digest: parsed.RootFS.DiffIDs[i],
		})
		names[parsed.RootFS.DiffIDs[i]] = layer
	}
	made, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return newFound(made, found{unpacked: true, blob: blobOf(in, func(of v1.Descriptor) string {
		return names[of.Digest]
	})})
}

// sameTag reports whether two names of images are equivalent: "busybox" and "docker.io/library/busybox:latest".
func sameTag(a, b string) bool {
	first, errA := reference.ParseDockerRef(a)
	second, errB := reference.ParseDockerRef(b)
	return errA == nil && errB == nil && first.String() == second.String()
}

// dirFiles are files below a directory. No symbolic link leads out of it.
type dirFiles struct{ *os.Root }

func openDir(dir string) (files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return dirFiles{root}, nil
}

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	info, err := d.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fs.ErrNotExist
	}
	f, err := d.Open(name)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// archiveFiles are files of a tar archive without compression.
type archiveFiles struct {
	*os.File
	at    map[string]span
	links map[string]string
}

type span struct{ start, size int64 }

// maxFiles bounds the files of an archive. An image has few files, because each layer is one file.
const maxFiles = 100_000

func openArchive(name string) (_ files, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	a := archiveFiles{File: f, at: map[string]span{}, links: map[string]string{}}
	if err := a.index(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return a, nil
}

// index records the offset of each file.
func (a archiveFiles) index() error {
	if info, err := a.Stat(); err != nil || !info.Mode().IsRegular() {
		return core.Errorf(core.KindUsage, "local.image", "", "%s is not a regular file", a.Name())
	}
	head := make([]byte, 2)
	if _, err := a.ReadAt(head, 0); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		return core.Errorf(core.KindUsage, "local.image", "", "the archive is compressed").
			WithHint("decompress it first: gunzip %s", a.Name())
	}
	reader := tar.NewReader(a.File)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return core.Errorf(core.KindUsage, "local.image", "", "%s is not a valid tar archive: %w", a.Name(), err)
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			// The tar reader reads headers in whole blocks, so the file offset is the start of the content.
			start, err := a.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			a.at[name] = span{start, header.Size}
		case tar.TypeSymlink:
			// It is a key of the map at, and no path of the host.
			a.links[name] = path.Join(path.Dir(name), header.Linkname) //nolint:gosec // see above
		}
		if len(a.at)+len(a.links) > maxFiles {
			return core.Errorf(core.KindUsage, "local.image", "", "%s has more than %d files", a.Name(), maxFiles)
		}
	}
}

func (a archiveFiles) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	// Older versions of "docker save" write a repeated layer as a link to the first.
	if to, ok := a.links[name]; ok {
		name = to
	}
	at, ok := a.at[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(a.File, at.start, at.size)), at.size, nil
}
