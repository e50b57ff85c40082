//go:build linux

package engine

import (
	"context"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Config is what a sandbox needs to be started.
type Config struct {
	// ID names the sandbox to gVisor; it is unique among those of this user.
	ID string
	// Dir is a private directory (0700) for the bundle, the rootfs view and gVisor's
	// own state. Stop empties it.
	Dir string
	// OverlayDir holds the unlinked files behind the writable layer.
	OverlayDir string
	// Executable is a static program that calls RunChild; "" is this one.
	Executable string
	// Guest is the host path of the sb-guest program, a static binary.
	Guest string
	// RootImage is the path of a read-only EROFS file that is the sandbox's root directory, below the writable layer. It
	// has the directories dev, proc and sys and the files etc/hosts, etc/hostname and etc/resolv.conf. "" shows this
	// machine's programs.
	RootImage string
	// Restore is a directory that SaveFS filled, or "" for a fresh filesystem.
	Restore string
	// Image is called when everything is made for the sandbox to begin. It returns a directory that Checkpoint filled: the
	// sandbox resumes from there, as a copy. The limits must be those of the one it was made of, Memory and CPU
	// apart. nil is a new sandbox; with Image there is no Restore.
	Image func(context.Context) (dir string, err error)
	// Network gives the sandbox an interface; nil means loopback only.
	Network *Network

	// Volumes are host directories that the sandbox sees.
	Volumes []Volume

	Hostname string
	Env      []string
	Limits   Limits
	// Log is where gVisor's own messages go; nil discards them.
	Log *os.File
}

// Volume shows a host directory inside. Each side sees the writes of the other.
type Volume struct {
	Source, Target string
	ReadOnly       bool
}

// Network is the sandbox's one interface beside its loopback: pure IP, no Ethernet.
type Network struct {
	// NIC is the sentry's end of a packet socket. Start takes a copy.
	NIC *os.File
	MTU int
	// Address and Gateway are IPv4, Bits is the prefix's length.
	Address, Gateway netip.Addr
	Bits             int
}

// Limits bound what the sandbox uses; 0 means no limit of its own.
type Limits struct {
	CPU       float64 // cores
	Memory    int64   // bytes
	Disk      int64   // bytes written to the overlay
	Processes int
	OpenFiles int // per process
}

// Command is a program to run inside.
type Command struct {
	Argv []string
	Env  []string
	Dir  string
	UID  uint32
	GID  uint32
	// Groups are supplementary.
	Groups []uint32
	// Files become descriptors 0, 1, 2, 3 … They are pipes, sockets or terminals,
	// never regular files: the sentry writes at an offset of its own. The caller closes its copies.
	Files []*os.File
	// Program, when set, is a static binary to execute in place of Argv[0].
	Program *os.File
	// Hidden lets no process inside trace the program, root's neither. It is for a helper that starts no program itself.
	Hidden bool
	// admin adds the capability to name the sandbox.
	admin bool
}

// Exit is how a process ended: by Signal when that is not 0, else with Code.
type Exit struct {
	Code   int
	Signal syscall.Signal
}

// Usage is what the whole sandbox uses.
type Usage struct {
	CPU       time.Duration
	Memory    int64
	Processes int
	Disk      int64
}
