//go:build linux

package supervisor

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// user is a line of the sandbox's /etc/passwd.
type user struct {
	name, home string
	uid, gid   uint32
}

const (
	// maxPasswd bounds what is read of the file, in bytes.
	maxPasswd = 4 << 20
	// passwdPatience is how long the file may take.
	passwdPatience = 5 * time.Second
)

// readPasswd reads the sandbox's users. A sandbox without the file has none but root.
func (s *Supervisor) readPasswd() ([]user, error) {
	return s.readUsers(passwdPatience, func(w *os.File) error { return s.box.ReadFile("/etc/passwd", w) })
}

// readUsers reads users from what write writes. A sandbox that goes on where another one was may have anything in the file's place, also what
// has no end or never begins; write is not waited for then before the sandbox ends.
func (s *Supervisor) readUsers(patience time.Duration, write func(w *os.File) error) ([]user, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	s.wg.Go(func() {
		err := write(w)
		_ = w.Close()
		if err != nil {
			s.log.Info("the sandbox's /etc/passwd was not read", "error", err)
		}
	})
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	users, err := parsePasswd(io.LimitReader(r, maxPasswd))
	if err != nil {
		s.log.Warn("the sandbox's /etc/passwd was not read to its end", "error", err)
	}
	return users, nil
}

// parsePasswd reads users until the end of r or an error, which it returns with those before it.
func parsePasswd(r io.Reader) ([]user, error) {
	var users []user
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPasswd)
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
