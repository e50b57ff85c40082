package transfer

import (
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core/origin"
)

// Selection is an origin, and the chosen paths relative to it.
type Selection struct {
	Origin origin.Origin
	Paths  []string
}

// Select returns the origins that absolute paths of a sandbox choose: the nearest origin that contains a path, or all
// origins below it. Without paths it returns all. rest are the paths that choose none.
func Select(origins []origin.Origin, paths []string) (chosen []Selection, rest []string) {
	at := map[string]int{}
	add := func(o origin.Origin, name string) {
		key := o.Target + "\x00" + o.Source
		i, known := at[key]
		if !known {
			i = len(chosen)
			at[key] = i
			chosen = append(chosen, Selection{Origin: o})
		}
		chosen[i].Paths = append(chosen[i].Paths, name)
	}
	if len(paths) == 0 {
		for _, o := range origins {
			add(o, ".")
		}
		return chosen, nil
	}
	for _, p := range paths {
		var best *origin.Origin
		for _, o := range origins {
			if inside(o.Target, p) && o.Has(relative(o.Target, p)) && (best == nil || len(o.Target) > len(best.Target)) {
				best = &o
			}
		}
		if best != nil {
			add(*best, relative(best.Target, p))
			continue
		}
		found := false
		for _, o := range origins {
			if p != "/" && inside(p, o.Target) {
				add(o, ".")
				found = true
			}
		}
		if !found {
			rest = append(rest, p)
		}
	}
	return chosen, rest
}

// relative returns a path that lies in dir, relative to it.
func relative(dir, name string) string {
	return path.Clean("./" + strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"))
}

// inside reports whether a clean path is dir or lies in it.
func inside(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
