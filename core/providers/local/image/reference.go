package image

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/seed-0724f904/sb/core"
)

// Places of images besides registries. Other container tools use the same names.
const (
	placeOCI           = "oci"
	placeOCIArchive    = "oci-archive"
	placeDockerArchive = "docker-archive"
	placeDir           = "dir"
	placeDockerDaemon  = "docker-daemon"
)

// target is a parsed reference.
type target struct {
	// place is "" for a registry.
	place string
	// path and tag belong to a file or directory; tag may be "". An engine's image has its name as the tag.
	path, tag string
	// engineID is the engine's id of its image, once it is known.
	engineID string
	// named is the name in a registry, with a tag or a digest.
	named reference.Named
}

// digested returns the digest of a name in a registry.
func digested(t target) (reference.Digested, bool) {
	d, ok := t.named.(reference.Digested)
	return d, ok
}

// key returns the reference in the store's form: as Docker shows it, or with an absolute path.
func (t target) key() string {
	switch {
	case t.place == "":
		return reference.FamiliarString(t.named)
	case t.place == placeDockerDaemon:
		return t.place + ":" + t.tag
	case t.tag == "":
		return t.place + ":" + t.path
	}
	return t.place + ":" + t.path + ":" + t.tag
}

// pinned reports whether the reference has a digest, so that it always names the same image.
func (t target) pinned() bool { return t.digest() != "" }

// digest returns the digest of the reference: "sha256:…". It is "" if the reference has none.
func (t target) digest() string {
	if pinned, ok := t.named.(reference.Digested); ok {
		return pinned.Digest().String()
	}
	return ""
}

// parse parses a reference. KindUsage: it is invalid.
func parse(ref string) (target, error) {
	place, rest, _ := strings.Cut(ref, ":")
	switch place {
	case placeOCI, placeOCIArchive, placeDockerArchive, placeDir:
		return parsePath(place, rest)
	case placeDockerDaemon:
		return parseEngine(rest)
	}
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return target{}, core.Errorf(core.KindUsage, "local.image", ref, "invalid image name: %w", err)
	}
	return target{named: named}, nil
}

// sources returns the references of an image at the mirrors of its registry, and then at the registry itself.
func (t target) sources(registries core.Registries) ([]name.Reference, error) {
	domain := reference.Domain(t.named)
	suffix := strings.TrimPrefix(t.named.String(), t.named.Name())
	var list []name.Reference
	for _, host := range append(slices.Clone(registries.Mirrors[domain]), domain) {
		var options []name.Option
		if registry, _, _ := strings.Cut(host, "/"); registries.Trusts(registry) {
			options = append(options, name.Insecure)
		}
		ref, err := name.ParseReference(host+"/"+reference.Path(t.named)+suffix, options...)
		if err != nil {
			return nil, core.Errorf(core.KindUsage, "local.image", t.key(), "invalid image name: %w", err)
		}
		list = append(list, ref)
	}
	return list, nil
}

// parseEngine parses the name or the id of an engine's image.
func parseEngine(name string) (target, error) {
	if _, _, ok := isID(name); ok {
		return target{place: placeDockerDaemon, tag: name}, nil
	}
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return target{}, core.Errorf(core.KindUsage, "local.image", placeDockerDaemon+":"+name,
			"it is no name of an engine's image: %w", err)
	}
	return target{place: placeDockerDaemon, tag: reference.FamiliarString(named)}, nil
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
