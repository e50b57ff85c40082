//go:build linux

package supervisor

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// user is a line of the sandbox's /etc/passwd.
type user struct {
	name, home string
	uid, gid   uint32
}

// readPasswd reads the sandbox's users. A sandbox without the file has none but root.
func (s *Supervisor) readPasswd() ([]user, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	err = s.box.ReadFile("/etc/passwd", w)
	_ = w.Close()
	if err != nil {
		s.log.Info("the sandbox has no /etc/passwd", "error", err)
	}
	return parsePasswd(r)
}

func parsePasswd(r io.Reader) ([]user, error) {
	var users []user
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 6 {
			continue
		}
		uid, uidErr := strconv.ParseUint(f[2], 10, 32)
		gid, gidErr := strconv.ParseUint(f[3], 10, 32)
		if uidErr == nil && gidErr == nil {
			users = append(users, user{name: f[0], home: f[5], uid: uint32(uid), gid: uint32(gid)})
		}
	}
	return users, lines.Err()
}

// lookup finds the user of a command: a name or uid, with :gid after a uid; "" is root.
func lookup(users []user, text string) (user, error) {
	if text == "" {
		text = "root"
	}
	name, group, grouped := strings.Cut(text, ":")
	found := user{home: "/"}
	uid, err := strconv.ParseUint(name, 10, 32)
	numeric := err == nil
	known := name == "root"
	if known {
		found = user{name: "root", home: "/root"}
	}
	for _, u := range users {
		if u.name == name || numeric && uint64(u.uid) == uid {
			found, known = u, true
			break
		}
	}
	if !known && !numeric {
		return user{}, core.Errorf(core.KindUsage, "exec", name, "the sandbox has no user %q", name).WithHint("name a user of its /etc/passwd, or a uid")
	}
	if !known {
		found.uid, found.gid = uint32(uid), uint32(uid)
	}
	if grouped {
		gid, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return user{}, core.Errorf(core.KindUsage, "exec", text, "%q is not a gid", group)
		}
		found.gid = uint32(gid)
	}
	return found, nil
}
