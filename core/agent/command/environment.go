//go:build linux

package command

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core/agent/program"
)

// Environment returns the variables of a process: those of base as "NAME=value", HOME, then the layers. A later layer
// wins. PATH has a default.
func Environment(base []string, home string, layers ...map[string]string) []string {
	merged := map[string]string{"PATH": program.DefaultPath}
	for _, variable := range base {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			merged[name] = value
		}
	}
	merged["HOME"] = home
	for _, layer := range layers {
		maps.Copy(merged, layer)
	}
	list := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, name+"="+merged[name])
	}
	return list
}

// PathOf returns the PATH of an environment.
func PathOf(env []string) string {
	for _, variable := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			return value
		}
	}
	return program.DefaultPath
}
