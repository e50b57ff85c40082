package image

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// Import stores the image in a file or directory: an archive of "docker save", an OCI archive, or an OCI layout. name
// is its reference. "" uses the names in an archive of "docker save". KindUsage: the file is no image, or has no name.
func (s *Store) Import(ctx context.Context, file, name string, progress core.ProgressFunc) (Image, error) {
	image, err := s.load(ctx, file, name, progress)
	return image, classify(file, err)
}

func (s *Store) load(ctx context.Context, file, name string, report core.ProgressFunc) (Image, error) {
	key, err := nameOf(name)
	if err != nil {
		return Image{}, err
	}
	t, tags, err := kindOf(file)
	if err != nil {
		return Image{}, err
	}
	keys := []string{key}
	if key == "" {
		keys = nil
		for _, tag := range tags {
			if key, err := nameOf(tag); err == nil && key != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			return Image{}, core.Errorf(core.KindUsage, "local.image", "", "the file names no image").
				WithHint("give it a name: sb image import %s NAME", file)
		}
	}
	from, err := findLocal(t)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = from.close() }()
	return s.obtain(ctx, from, wanted{keys: keys, imported: true}, &progress{to: report, ref: file})
}

// kindOf returns what kind of image a file has, and the names in it.
func kindOf(file string) (t target, tags []string, err error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return t, nil, err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return t, nil, err
	}
	if info.IsDir() {
		return target{place: placeOCI, path: absolute}, nil, nil
	}
	in, err := openArchive(absolute)
	if err != nil {
		return t, nil, err
	}
	defer func() { _ = in.Close() }()
	// Archives of "docker save" are OCI archives, too. Their manifest.json has the names.
	if saved, err := savedIn(in); err == nil {
		if len(saved) == 1 {
			tags = saved[0].RepoTags
		}
		return target{place: placeDockerArchive, path: absolute}, tags, nil
	}
	return target{place: placeOCIArchive, path: absolute}, nil, nil
}

// Tag gives a stored image another reference. KindNotFound: it is not stored. KindUsage: the name is invalid, or not
// that of a registry.
func (s *Store) Tag(ctx context.Context, ref, name string) error {
	key, err := nameOf(name)
	if err != nil {
		return err
	}
	if key == "" {
		return core.Errorf(core.KindUsage, "local.image", ref, "the new name is empty")
	}
	found, err := s.Get(ctx, ref)
	if err != nil {
		return err
	}
	release, err := s.Hold(ctx, found.ID)
	if err != nil {
		return err
	}
	defer release()
	return s.updateRefs(ctx, func(refs map[string]string) { refs[key] = found.ID })
}
