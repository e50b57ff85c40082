//go:build linux

package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy is one tree of control groups and a process's place in it.
type hierarchy struct {
	unified     bool // version 2
	controllers []string
	mount       string
	dir         string // the process's own group
}

// parse joins a process's /proc/PID/cgroup (cgroups(7)) with its mounts (proc_pid_mountinfo(5)). If a hierarchy is
// mounted several times, parse takes the first mount. It leaves out mounts that do not show the process's group.
func parse(own, mounts string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		h := hierarchy{mount: unescape(fields[4])}
		switch kind[0] {
		case "cgroup2":
			h.unified = true
		case "cgroup":
			h.controllers = strings.Split(kind[2], ",")
		default:
			continue
		}
		path, ok := place(own, h)
		if !ok || strings.HasPrefix(path, "/..") || slices.ContainsFunc(found, func(f hierarchy) bool {
			return f.unified == h.unified && (h.unified || slices.Equal(f.controllers, h.controllers))
		}) {
			continue
		}
		relative, err := filepath.Rel(unescape(fields[3]), path)
		if err != nil || relative == ".." || strings.HasPrefix(relative, "../") {
			continue
		}
		h.dir = filepath.Join(h.mount, relative)
		found = append(found, h)
	}
	return found
}

// place finds the process's path in a hierarchy.
func place(own string, h hierarchy) (string, bool) {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if h.unified && parts[0] == "0" && parts[1] == "" {
			return parts[2], true
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller != "" && !h.unified && slices.Contains(h.controllers, controller) {
				return parts[2], true
			}
		}
	}
	return "", false
}

// unescape decodes the escape sequences of mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
