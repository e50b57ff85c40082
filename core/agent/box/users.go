//go:build linux

package box

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// user is who a command runs as.
type user struct {
	home     string
	uid, gid uint32
	groups   []uint32
}

// lookupUser finds USER[:GROUP], names or numbers, in the sandbox's own files; "" is root. They
// are read each time, for the sandbox may change them.
func lookupUser(text string) (user, error) {
	name, group, grouped := strings.Cut(text, ":")
	if name == "" {
		name = "root"
	}
	found := user{home: "/"}
	uid, err := strconv.ParseUint(name, 10, 32)
	numeric := err == nil
	found.uid = uint32(uid)
	known := name == "root" || numeric
	if name == "root" || numeric && uid == 0 {
		found.home = "/root"
	}
	for _, f := range rows("/etc/passwd", 6, colons) {
		id, idErr := strconv.ParseUint(f[2], 10, 32)
		gid, gidErr := strconv.ParseUint(f[3], 10, 32)
		if idErr == nil && gidErr == nil && (f[0] == name || numeric && id == uid) {
			found.uid, found.gid, found.home, known = uint32(id), uint32(gid), f[5], true
			name = f[0]
			break
		}
	}
	if !known {
		return user{}, core.Errorf(core.KindUsage, "exec", name, "the sandbox has no user %q", name).WithHint("name a user of its /etc/passwd, or a uid")
	}
	for _, f := range rows("/etc/group", 4, colons) {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			continue
		}
		if slices.Contains(strings.Split(f[3], ","), name) {
			found.groups = append(found.groups, uint32(gid))
		}
		if grouped && f[0] == group {
			found.gid, grouped = uint32(gid), false
		}
	}
	if grouped {
		gid, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return user{}, core.Errorf(core.KindUsage, "exec", text, "the sandbox has no group %q", group).WithHint("name a group of its /etc/group, or a gid")
		}
		found.gid = uint32(gid)
	}
	return found, nil
}

// rows splits the lines of a file and leaves out those with fewer fields. A file that is not there has none.
func rows(path string, least int, split func(string) []string) [][]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var rows [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if row := split(lines.Text()); len(row) >= least {
			rows = append(rows, row)
		}
	}
	return rows
}

func colons(line string) []string { return strings.Split(line, ":") }
