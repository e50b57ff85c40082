//go:build linux

package supervisor

import (
	"os"
	"time"

	"github.com/seed-0724f904/sb/core/agent/command"
)

// passwdPatience is how long the file may take.
const passwdPatience = 5 * time.Second

// readPasswd reads the sandbox's users. A sandbox without the file has none but root.
func (s *Supervisor) readPasswd() ([]command.User, error) {
	return s.readUsers(passwdPatience, func(w *os.File) error { return s.box.ReadFile("/etc/passwd", w) })
}

// readUsers reads users from what write writes. A sandbox that resumes from another one may have anything in the file's
// place, also what has no end or never begins; write is not waited for then before the sandbox ends.
func (s *Supervisor) readUsers(patience time.Duration, write func(w *os.File) error) ([]command.User, error) {
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
	users, err := command.ParsePasswd(r)
	if err != nil {
		s.log.Warn("the sandbox's /etc/passwd was not read to its end", "error", err)
	}
	return users, nil
}

// user returns the user of a command: a name or a uid, and a gid behind it; "" is root.
func (s *Supervisor) user(text string) (command.User, error) {
	users := command.Users{List: s.passwd, OnlyUsers: true}
	return users.Find(text, func(uid uint32) uint32 { return uid })
}
