package core

import (
	"os"
	"os/user"
)

// CurrentOwner describes this process as the owner of its sandboxes.
func CurrentOwner(actor string) Owner {
	o := Owner{Actor: actor, PID: os.Getpid(), BootID: BootID()}
	o.Host, _ = os.Hostname()
	o.PIDStart, _ = ProcessStart(o.PID)
	if u, err := user.Current(); err == nil {
		o.User = u.Username
	}
	return o
}

// Process returns the owner without its ID, which processes share.
func (o Owner) Process() Owner {
	o.ID = ""
	return o
}

// Gone reports whether the owning process is known to have ended: it ran on this machine and no longer exists. For an
// owner on another machine it returns false.
func (o Owner) Gone() bool {
	host, err := os.Hostname()
	if err != nil || o.PID == 0 || o.BootID == "" || o.Host != host {
		return false
	}
	if o.BootID != BootID() {
		return true
	}
	start, ok := ProcessStart(o.PID)
	return !ok || start != o.PIDStart
}
