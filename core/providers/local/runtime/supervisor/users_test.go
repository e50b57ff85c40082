//go:build linux

package supervisor

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core/agent/command"
)

// usersOf reads the users from the output of write.
func usersOf(s *Supervisor, patience time.Duration, write func(*os.File) error) (users []command.User, err error) {
	err = s.read("/etc/passwd", patience, func(_ string, w *os.File) error { return write(w) },
		func(r io.Reader) (err error) {
			users, err = command.ParsePasswd(r)
			return err
		})
	return users, err
}

// A damaged /etc/passwd of a sandbox does not keep a copy of it from starting.
func TestReadUsersOfAnyFile(t *testing.T) {
	const root, last = "root:x:0:0:root:/root:/bin/sh\n", "last:x:7:8::/home/last:/bin/sh\n"
	long := strings.Repeat("x", 100<<10)
	for what, test := range map[string]struct {
		write func(*os.File) error
		users int
	}{
		"small": {func(w *os.File) error { _, err := io.WriteString(w, root+last); return err }, 2},
		"none":  {func(*os.File) error { return os.ErrNotExist }, 0},
		"large": {func(w *os.File) error {
			_, err := io.WriteString(w, strings.Repeat(root, 10_000)+last)
			return err
		}, 10_001},
		"a long line": {func(w *os.File) error { _, err := io.WriteString(w, root+long+"\n"+last); return err }, 2},
		"no end": {func(w *os.File) error {
			for {
				if _, err := io.WriteString(w, long); err != nil {
					return err
				}
			}
		}, 0},
	} {
		s := &Supervisor{log: slog.New(slog.DiscardHandler)}
		users, err := usersOf(s, time.Minute, test.write)
		if err != nil || len(users) != test.users {
			t.Errorf("%s: %d users, %v", what, len(users), err)
		}
		s.wg.Wait()
	}
	s := &Supervisor{log: slog.New(slog.DiscardHandler)}
	ended := make(chan struct{})
	if users, err := usersOf(s, time.Millisecond, func(*os.File) error {
		<-ended
		return errors.ErrUnsupported
	}); err != nil || len(users) != 0 {
		t.Errorf("a pipe without a writer: %d users, %v", len(users), err)
	}
	close(ended)
	s.wg.Wait()
}
