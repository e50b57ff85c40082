//go:build linux

package supervisor

import (
	"io"
	"os"
	"time"

	"github.com/seed-0724f904/sb/core/agent/command"
)

// usersPatience bounds the time to read each file.
const usersPatience = 5 * time.Second

// readUsers reads the sandbox's users and, for an image, its groups. Without the files there is only root.
func (s *Supervisor) readUsers() (users command.Users, err error) {
	users.OnlyUsers = s.launch.Root == nil
	err = s.read("/etc/passwd", usersPatience, s.box.ReadFile, func(r io.Reader) (err error) {
		users.List, err = command.ParsePasswd(r)
		return err
	})
	if err == nil && !users.OnlyUsers {
		err = s.read("/etc/group", usersPatience, s.box.ReadFile, func(r io.Reader) (err error) {
			users.Groups, err = command.ParseGroup(r)
			return err
		})
	}
	return users, err
}

// read passes the output of write to parse, for at most the duration patience. A resumed sandbox or an image may have
// another kind of file there, whose content never begins or ends. In that case write runs until the sandbox ends.
func (s *Supervisor) read(
	name string, patience time.Duration, write func(name string, w *os.File) error, parse func(io.Reader) error,
) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	s.wg.Go(func() {
		err := write(name, w)
		_ = w.Close()
		if err != nil {
			s.log.Info("a file of the sandbox was not read", "file", name, "error", err)
		}
	})
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := parse(r); err != nil {
		s.log.Warn("a file of the sandbox was read only in part", "file", name, "error", err)
	}
	return nil
}

// defaultUser returns the user for commands and file operations without one.
func (s *Supervisor) defaultUser() string {
	if s.launch.Spec.User == "" && s.launch.Root != nil {
		return s.launch.Root.User
	}
	return s.launch.Spec.User
}

// user parses USER[:GROUP], each a name or a number; "" is root. As in Docker, a uid without an entry in an image has
// the group 0.
func (s *Supervisor) user(text string) (command.User, error) {
	return s.users.Find(text, s.stranger)
}

// stranger returns the group of a user without an entry.
func (s *Supervisor) stranger(uid uint32) uint32 {
	if s.launch.Root != nil {
		return 0
	}
	return uid
}
