//go:build linux

package local

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// The sandbox is the same for all users, independent of the launching process's umask. The user with a home can use it.
func TestUsersOfTheHostImage(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	p, sb := crashed(t, nil)
	unix.Umask(before)
	var out lockedBuilder
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{
		User: "user",
		Command: []string{
			"sh", "-c",
			"umask; echo mine > ~/file && cat ~/file; grep -c ^user: /etc/passwd; ls -d /etc/ssl/. /etc/default/. /var/lib/.",
		},
		Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if exit, err := process.Wait(providertest.Patient(t)); err != nil ||
		!strings.HasPrefix(out.String(), "0022\nmine\n1\n") || strings.Contains(out.String(), "denied") {
		t.Errorf("%+v, %v: %s", exit, err, out.String())
	}
}
