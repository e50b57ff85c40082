//go:build linux

package supervisor

import (
	"maps"
	"slices"
)

// environment is what a process sees: nothing of the host's or the caller's but layers, of which a later one wins.
// Secrets are a layer of commands only: what else runs in the sandbox is written down, and needs none.
func environment(home string, layers ...map[string]string) []string {
	merged := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": home,
		"LANG": "C.UTF-8",
	}
	for _, layer := range layers {
		maps.Copy(merged, layer)
	}
	list := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, name+"="+merged[name])
	}
	return list
}
