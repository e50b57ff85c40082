//go:build linux

package command

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// MaxUsers bounds the files of users and groups, in bytes.
const MaxUsers = 4 << 20

// User is a user of the sandbox.
type User struct {
	Name, Home string
	UID, GID   uint32
	// Groups are the supplementary ones; Users.Find sets them.
	Groups []uint32
}

// Group is a group of the sandbox.
type Group struct {
	Name    string
	GID     uint32
	Members []string
}

// Users are the users and groups of a sandbox, from its own files.
type Users struct {
	List   []User
	Groups []Group
	// OnlyUsers means that Groups were not read: a group is named by its gid.
	OnlyUsers bool
}

// ParsePasswd reads passwd(5) until the end of r or an error, which it returns with the users before it.
func ParsePasswd(r io.Reader) ([]User, error) {
	var users []User
	err := eachLine(r, func(f []string) {
		if len(f) < 6 {
			return
		}
		uid, uidErr := strconv.ParseUint(f[2], 10, 32)
		gid, gidErr := strconv.ParseUint(f[3], 10, 32)
		if uidErr == nil && gidErr == nil {
			users = append(users, User{Name: f[0], Home: f[5], UID: uint32(uid), GID: uint32(gid)})
		}
	})
	return users, err
}

// ParseGroup reads group(5) until the end of r or an error, which it returns with the groups before it.
func ParseGroup(r io.Reader) ([]Group, error) {
	var groups []Group
	err := eachLine(r, func(f []string) {
		if len(f) < 4 {
			return
		}
		if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			groups = append(groups, Group{Name: f[0], GID: uint32(gid), Members: strings.Split(f[3], ",")})
		}
	})
	return groups, err
}

func eachLine(r io.Reader, do func(fields []string)) error {
	lines := bufio.NewScanner(io.LimitReader(r, MaxUsers))
	lines.Buffer(nil, MaxUsers)
	for lines.Scan() {
		do(strings.Split(lines.Text(), ":"))
	}
	return lines.Err()
}

// Find returns the user of USER[:GROUP], each a name or a number; "" is root. A uid without an entry has the home
// directory / and the gid stranger. Errors are core.KindUsage.
func (u Users) Find(text string, stranger func(uid uint32) (gid uint32)) (User, error) {
	name, group, grouped := strings.Cut(text, ":")
	if name == "" {
		name = "root"
	}
	found, err := u.user(name, stranger)
	if err != nil {
		return User{}, err
	}
	for _, g := range u.Groups {
		if slices.Contains(g.Members, found.Name) {
			found.Groups = append(found.Groups, g.GID)
		}
	}
	if grouped {
		found.GID, err = u.group(text, group)
	}
	return found, err
}

func (u Users) user(name string, stranger func(uid uint32) uint32) (User, error) {
	number, err := strconv.ParseUint(name, 10, 32)
	numeric := err == nil
	uid := uint32(number)
	for _, user := range u.List {
		if user.Name == name || numeric && user.UID == uid {
			return user, nil
		}
	}
	switch {
	case name == "root" || numeric && uid == 0:
		return User{Name: "root", Home: "/root"}, nil
	case numeric:
		return User{Name: name, Home: "/", UID: uid, GID: stranger(uid)}, nil
	}
	return User{}, core.Errorf(core.KindUsage, "exec", name, "the sandbox has no user %q", name).
		WithHint("name a user of its /etc/passwd, or a uid")
}

func (u Users) group(text, group string) (uint32, error) {
	for _, g := range u.Groups {
		if g.Name == group {
			return g.GID, nil
		}
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	switch {
	case err == nil:
		return uint32(gid), nil
	case u.OnlyUsers:
		return 0, core.Errorf(core.KindUsage, "exec", text, "%q is not a gid", group)
	}
	return 0, core.Errorf(core.KindUsage, "exec", text, "the sandbox has no group %q", group).
		WithHint("name a group of its /etc/group, or a gid")
}
