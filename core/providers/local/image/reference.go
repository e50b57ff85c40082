package image

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/distribution/reference"

	"github.com/seed-0724f904/sb/core"
)

// Places of images besides registries. Other container tools use the same names.
const (
	placeOCI           = "oci"
	placeOCIArchive    = "oci-archive"
	placeDockerArchive = "docker-archive"
	placeDir           = "dir"
)

// target is a parsed reference.
type target struct {
	// place is "" for a registry.
	place string
	// path and tag belong to a file or directory; tag may be "".
	path, tag string
	// named is the name in a registry, with a tag or a digest.
	named reference.Named
}

// key returns the reference in the store's form: as Docker shows it, or with an absolute path.
func (t target) key() string {
	switch {
	case t.place == "":
		return reference.FamiliarString(t.named)
	case t.tag == "":
		return t.place + ":" + t.path
	}
	return t.place + ":" + t.path + ":" + t.tag
}

// parse parses a reference. KindUsage: it is invalid.
func parse(ref string) (target, error) {
	place, rest, _ := strings.Cut(ref, ":")
	switch place {
	case placeOCI, placeOCIArchive, placeDockerArchive, placeDir:
		return parsePath(place, rest)
	}
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return target{}, core.Errorf(core.KindUsage, "local.image", ref, "it is no name of an image: %w", err)
	}
	return target{named: named}, nil
}

// parsePath parses "PATH" or "PATH:TAG". Both may contain colons. The path is the longest existing one. If none exists,
// it is the part before the first colon.
func parsePath(place, rest string) (target, error) {
	path, tag := rest, ""
	for place != placeDir {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		i := strings.LastIndexByte(path, ':')
		if i <= 0 {
			path, tag, _ = strings.Cut(rest, ":")
			break
		}
		path, tag = rest[:i], rest[i+1:]
	}
	if path == "" {
		return target{}, core.Errorf(core.KindUsage, "local.image", place+":"+rest, "%s: needs a path after it", place)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return target{}, err
	}
	return target{place: place, path: absolute, tag: tag}, nil
}

// isID returns the hex digits of ref if it is an image's id or a prefix of one. A prefix has at least 12 digits.
func isID(ref string) (hex string, whole, ok bool) {
	hex, prefixed := strings.CutPrefix(ref, "sha256:")
	if !regexp.MustCompile(`^[0-9a-f]{12,64}$`).MatchString(hex) {
		return "", false, false
	}
	return hex, prefixed && len(hex) == 64, true
}
