//go:build linux

package engine

import (
	"context"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Config is the configuration for the start of a sandbox.
type Config struct {
	// ID is the sandbox's id for gVisor. It must be unique for this user.
	ID string
	// Dir is a private directory (0700) for the bundle, the root directory and gVisor's state. Stop empties it.
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
	// Files are read-only files in memory, for a sandbox with a RootImage.
	Files []File
	// Restore is a directory that SaveFS filled, or "" for a fresh filesystem.
	Restore string
	// Image returns a directory that Checkpoint filled. The sandbox resumes from it as a copy. Start calls Image after all
	// other preparations. The limits, except for Memory and CPU, must be those of the checkpointed sandbox. nil is a new
	// sandbox. Image excludes Restore.
	Image func(context.Context) (dir string, err error)
	// Network gives the sandbox an interface; nil means loopback only.
	Network *Network

	// Volumes are host directories that are visible in the sandbox.
	Volumes []Volume

	Hostname string
	Env      []string
	Limits   Limits
	// Log receives gVisor's messages; nil discards them.
	Log *os.File
}

// File is a read-only file of a sandbox.
type File struct {
	Path    string
	Content []byte
	Mode    os.FileMode
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

// Limits bound the sandbox's resources; 0 means no limit.
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
	// Groups are the supplementary groups.
	Groups []uint32
	// Files become descriptors 0, 1, 2, 3 … They must be pipes, sockets or terminals. Regular files do not work, because
	// the sentry writes at its own offset. The caller closes its copies.
	Files []*os.File
	// Program, when set, is a static binary to execute in place of Argv[0].
	Program *os.File
	// Hidden prevents all processes inside, also those of root, from tracing the program. It is for helpers that start no
	// programs.
	Hidden bool
	// admin adds the capability to set the host name.
	admin bool
}

// Exit is the exit status of a process: Signal if that is not 0, else Code.
type Exit struct {
	Code   int
	Signal syscall.Signal
}

// Usage is the resource usage of the whole sandbox.
type Usage struct {
	CPU       time.Duration
	Memory    int64
	Processes int
	Disk      int64
}
