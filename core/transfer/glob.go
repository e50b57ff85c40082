package transfer

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Expand returns the paths that match a pattern ("*", "?", "[…]"), sorted. A path without a pattern, or one that exists
// literally, returns itself. KindNotFound: nothing matches.
func Expand(ctx context.Context, files Files, from Endpoint) ([]Endpoint, error) {
	if from.stream() || !strings.ContainsAny(from.Path, "*?[") {
		return []Endpoint{from}, nil
	}
	var found []string
	var err error
	if from.Sandbox == "" {
		if _, err := os.Lstat(from.Path); err == nil {
			return []Endpoint{from}, nil
		}
		found, err = filepath.Glob(from.Path)
	} else {
		if _, err := files.Stat(ctx, from.Sandbox, from.Path); err == nil {
			return []Endpoint{from}, nil
		}
		found, err = globInside(ctx, files, from.Sandbox, from.Path)
	}
	if errors.Is(err, path.ErrBadPattern) || errors.Is(err, filepath.ErrBadPattern) {
		return nil, core.Errorf(core.KindUsage, "copy", from.String(), "%q is not a pattern", from.Path)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, core.Errorf(core.KindNotFound, "copy", from.String(), "no path matches the pattern")
	}
	endpoints := make([]Endpoint, len(found))
	for i, name := range found {
		endpoints[i] = Endpoint{from.Sandbox, name}
	}
	return endpoints, nil
}

// globInside expands a pattern element by element.
func globInside(ctx context.Context, files Files, sandbox, pattern string) ([]string, error) {
	found := []string{"."}
	if path.IsAbs(pattern) {
		found = []string{"/"}
	}
	wild := false
	for element := range strings.SplitSeq(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(element, "*?[") {
				name := path.Join(dir, element)
				if wild {
					// An earlier pattern matched directories that may lack this name.
					_, err := files.Stat(ctx, sandbox, name)
					if errors.Is(err, core.KindNotFound) || errors.Is(err, core.KindConflict) {
						continue
					}
					if err != nil {
						return nil, err
					}
				}
				next = append(next, name)
				continue
			}
			infos, err := files.ReadDir(ctx, sandbox, dir)
			if errors.Is(err, core.KindNotFound) || errors.Is(err, core.KindConflict) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, info := range infos {
				base := path.Base(info.Path)
				if base == "." || base == ".." || base == "/" {
					continue
				}
				fits, err := path.Match(element, base)
				if err != nil {
					return nil, err
				}
				if fits && (!strings.HasPrefix(base, ".") || strings.HasPrefix(element, ".")) {
					next = append(next, path.Join(dir, base))
				}
			}
		}
		found, wild = next, wild || strings.ContainsAny(element, "*?[")
	}
	return found, nil
}
