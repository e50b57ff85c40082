//go:build linux

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// Store is the state directory of one user.
type Store struct{ state string }

// New returns the store below the directory state. It does no I/O.
func New(state string) *Store { return &Store{state: state} }

// Dir is a sandbox's directory, which outlives it until it is terminated.
func (s *Store) Dir(id string) string { return filepath.Join(s.state, "sandboxes", id) }

// ImagesDir has the stored images.
func (s *Store) ImagesDir() string { return filepath.Join(s.state, "images") }

// RuntimeDir is a sandbox's directory for sockets and what gVisor needs while it runs. It lies in the state directory,
// which all clients of a user share: XDG_RUNTIME_DIR differs between logins, and ends with the last of them.
func (s *Store) RuntimeDir(id string) string { return filepath.Join(s.Dir(id), runtimeDir) }

// GroupName is the name of a sandbox's control group. Groups of other state directories have other names.
func (s *Store) GroupName(id string) string {
	return fmt.Sprintf("sb-%08x-%s", crc32.ChecksumIEEE([]byte(s.state)), id)
}

// Socket is where a sandbox's supervisor listens.
func (s *Store) Socket(id string) string { return filepath.Join(s.RuntimeDir(id), SocketName) }

// ClientDir is the directory in a sandbox's directory that supervisors do not see: clients believe what is in it.
const ClientDir = "client"

// Names of files in a sandbox's directories.
const (
	SocketName  = "ctl.sock"
	JournalDir  = "journal"
	SavedDir    = "fs"
	ImageDir    = "image" // of a fork that is being made
	SecretFile  = ClientDir + "/secrets.json"
	LogFile     = "supervisor.log"
	GroupFile   = ClientDir + "/cgroup.json"
	leaseFile   = ClientDir + "/lease.json"
	rootFile    = ClientDir + "/root.json" // Lease.Root once more: saved files are of no use without it
	processFile = ClientDir + "/supervisor.json"
	stateFile   = "state.json"
	lockFile    = "lock"
	updateFile  = ClientDir + "/update.lock"
	runtimeDir  = "run"
)

// Lease is what lease.json holds: all that is known before a sandbox exists.
type Lease struct {
	ID    string     `json:"id"`
	Spec  core.Spec  `json:"spec"` // without the values of secrets
	Lease core.Lease `json:"lease"`
	// Root is the id of the image that is the sandbox's root directory; "" is this machine's programs.
	Root string `json:"root,omitempty"`
	// Damage says that the file was damaged and this is its copy; nil is none.
	Damage error `json:"-"`
}

// State is what state.json holds.
type State struct {
	State   core.State  `json:"state"`
	Reason  core.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Frozen  bool        `json:"frozen,omitempty"`
	BootID  string      `json:"boot_id"`
	PID     int         `json:"pid"`
	// PIDStart is when that process started, as core.ProcessStart tells.
	PIDStart uint64    `json:"pid_start,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Fixed means that a timeout was set: no lease changes Expires.
	Fixed      bool               `json:"fixed,omitempty"`
	LastActive time.Time          `json:"last_active,omitzero"`
	ExitCode   *int               `json:"exit_code,omitempty"`
	Ports      []core.PortMapping `json:"ports,omitempty"`
	// Denied is how often the network policy refused something, and Denial the latest of it.
	Denied int          `json:"denied,omitempty"`
	Denial *core.Denial `json:"denial,omitempty"`
	// Saved is the generation of the filesystem that was saved last; 0 is none. It is for display: Saves knows what there
	// is.
	Saved int `json:"saved,omitempty"`
	// Note says what of the saved files was damaged at the last start.
	Note string `json:"note,omitempty"`
	// Damage says that the file was damaged and this is its copy; nil is none.
	Damage error `json:"-"`
}

// Create makes a sandbox's directory and takes its lock.
func (s *Store) Create(id string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Join(s.state, "sandboxes"), 0o700); err != nil {
		return nil, err
	}
	var lock *Lock
	err := s.withNames(func(string) (err error) {
		if err := os.Mkdir(s.Dir(id), 0o700); err != nil {
			return err
		}
		err = os.Mkdir(filepath.Join(s.Dir(id), ClientDir), 0o700)
		if err == nil {
			var f *os.File
			if f, err = s.openLock(id); err == nil {
				lock, err = take(f)
			}
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(s.Dir(id)))
		}
		return nil
	})
	return lock, err
}

// ErrLocked means that somebody else is responsible for the sandbox.
var ErrLocked = errors.New("the sandbox is in use")

// Lock is responsibility for a sandbox. It passes to a child process that inherits File.
type Lock struct{ File *os.File }

// lookTime is how long somebody who only looks may hold a lock, and lookPause how often that is looked at.
const lookTime, lookPause = 100 * time.Millisecond, 2 * time.Millisecond

// Lock takes a sandbox's lock, or soon fails with ErrLocked. A sandbox that is gone, also because the holder of the
// lock removed it, is fs.ErrNotExist.
func (s *Store) Lock(id string) (*Lock, error) {
	var f *os.File
	// A file that is made while the directory is being removed would keep it there.
	err := s.withNames(func(string) (err error) {
		f, err = s.openLock(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	lock, err := take(f)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Stat(f.Name()); err == nil && !os.SameFile(opened, now) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// lockPath is a sandbox's lock file.
func (s *Store) lockPath(id string) string { return filepath.Join(s.Dir(id), ClientDir, lockFile) }

func (s *Store) openLock(id string) (*os.File, error) {
	return OpenRegular(s.lockPath(id), os.O_CREATE|os.O_RDWR, 0o600)
}

// take locks an open file, and closes it where that fails.
func take(f *os.File) (*Lock, error) {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	// Locked and Abandoned take it for a moment.
	for began := time.Now(); errors.Is(err, unix.EWOULDBLOCK) && time.Since(began) < lookTime; {
		time.Sleep(lookPause)
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	return &Lock{f}, nil
}

// Close gives the lock up in this process. One that inherited it keeps it.
func (l *Lock) Close() error { return l.File.Close() }

// Locked says whether somebody is responsible for the sandbox.
func (s *Store) Locked(id string) bool {
	return held(s.lockPath(id))
}

// Abandoned reports whether path exists while no process is responsible for the sandbox.
func (s *Store) Abandoned(id, path string) bool {
	return s.abandoned(s.lockPath(id), path)
}

// abandoned reports whether path exists while no process has locked a file. Asked one after the other, a path that is
// removed meanwhile would look left behind; and what is being made is locked a moment later.
func (s *Store) abandoned(lock, path string) bool {
	err := s.withNames(func(string) error {
		f, err := OpenRegular(lock, os.O_RDONLY, 0)
		if err == nil {
			defer func() { _ = f.Close() }()
			err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err = os.Lstat(path)
		return err
	})
	return err == nil
}

// held says whether somebody has locked a file.
func held(path string) bool {
	f, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(flock(f, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func flock(f *os.File, how int) error {
	for {

		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// IDs lists the sandboxes that have a directory.
func (s *Store) IDs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.state, "sandboxes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// WriteLease writes lease.json in a sandbox's directory, durably. The caller holds the sandbox's lock, or is in Update.
func WriteLease(dir string, l Lease) error {
	return WriteJSON(filepath.Join(dir, leaseFile), l, true)
}

// WriteRoot writes the id of the image that is a sandbox's root directory, durably.
func WriteRoot(dir, image string) error { return WriteJSON(filepath.Join(dir, rootFile), image, true) }

// Root returns Lease.Root, also if lease.json and its copy are lost or damaged.
func (s *Store) Root(id string) (image string, err error) {
	lease, err := s.ReadLease(id)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !IsDamage(err) {
		return lease.Root, err
	}
	_, err = ReadJSON(filepath.Join(s.Dir(id), rootFile), &image)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return image, err
}

// ReadLease reads lease.json. fs.ErrNotExist: it was never written, or is lost with its copy.
func (s *Store) ReadLease(id string) (l Lease, err error) {
	damage, err := ReadJSON(filepath.Join(s.Dir(id), leaseFile), &l)
	l.Damage = damage
	return l, err
}

// Update calls change while no other client updates the lease of a running sandbox.
func (s *Store) Update(id string, change func(dir string) error) error {
	f, err := OpenRegular(filepath.Join(s.Dir(id), updateFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f, unix.LOCK_EX); err != nil {
		return err
	}
	return change(s.Dir(id))
}

// Process is the supervisor of a sandbox, as the client knows it that started it.
type Process struct {
	PID int `json:"pid"`
	// Start is when it started, as core.ProcessStart tells, and BootID when the machine did.
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// WriteProcess notes a sandbox's supervisor. The caller holds the sandbox's lock.
func (s *Store) WriteProcess(id string, p Process) error {
	return WriteJSON(filepath.Join(s.Dir(id), processFile), p, false)
}

// ReadProcess reads what WriteProcess wrote. fs.ErrNotExist: no supervisor was started yet.
func (s *Store) ReadProcess(id string) (p Process, err error) {
	_, err = ReadJSON(filepath.Join(s.Dir(id), processFile), &p)
	return p, err
}

// WriteState replaces state.json in a sandbox's directory. durable waits for the disk.
func WriteState(dir string, state State, durable bool) error {
	return WriteJSON(filepath.Join(dir, stateFile), state, durable)
}

// StatePath is where state.json is.
func (s *Store) StatePath(id string) string { return filepath.Join(s.Dir(id), stateFile) }

// ReadState reads state.json. fs.ErrNotExist: it was never written, or is lost with its copy.
func (s *Store) ReadState(id string) (state State, err error) {
	damage, err := ReadJSON(filepath.Join(s.Dir(id), stateFile), &state)
	state.Damage = damage
	return state, err
}

// Remove removes all that a sandbox left on disk, and then its name, if it has that. The caller holds its lock.
func (s *Store) Remove(id, name string) error {
	if err := s.withdraw(id); err != nil {
		return err
	}
	// The lease and the lock go last: until then what is left is known for what it is.
	if err := removeAllBut(s.Dir(id), ClientDir); err != nil {
		return err
	}
	return s.withNames(func(names string) error {
		if err := release(names, name, id); err != nil {
			return err
		}
		return os.RemoveAll(s.Dir(id))
	})
}

// removedDir is where saved files lie while they are removed.
const removedDir = ".removed"

// withdraw is the step before which a sandbox that is being removed can be started, and after which it is lost: a
// removal that is broken off never leaves half of its files to be started from. It needs no space on the disk.
func (s *Store) withdraw(id string) error {
	states, err := filepath.Glob(filepath.Join(s.Dir(id), stateFile+"*"))
	if err != nil {
		return err
	}
	for _, state := range states {
		if err := os.Remove(state); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	removed := filepath.Join(s.Dir(id), removedDir)
	if err := os.RemoveAll(removed); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(s.Dir(id), SavedDir), removed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func removeAllBut(dir string, keep ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Reserve gives a name to a sandbox. taken says whether the one that has it now still
// needs it; if so the error is fs.ErrExist.
func (s *Store) Reserve(name, id string, taken func(id string) bool) error {
	return s.withNames(func(dir string) error {
		link := filepath.Join(dir, name)
		if holder, err := os.Readlink(link); err == nil {
			if taken(holder) {
				return fs.ErrExist
			}
			if err := os.Remove(link); err != nil {
				return err
			}
		}
		return os.Symlink(id, link)
	})
}

// Release takes a name from a sandbox, if it has it.
func (s *Store) Release(name, id string) error {
	return s.withNames(func(dir string) error { return release(dir, name, id) })
}

func release(dir, name, id string) error {
	link := filepath.Join(dir, name)
	if holder, err := os.Readlink(link); err != nil || holder != id {
		return nil
	}
	return os.Remove(link)
}

// Named returns the id that has a name; fs.ErrNotExist when there is none.
func (s *Store) Named(name string) (string, error) {
	return os.Readlink(filepath.Join(s.state, "names", name))
}

// NameOf returns the name that a sandbox has; "" if it has none.
func (s *Store) NameOf(id string) string {
	names, err := s.Names()
	if err != nil {
		return ""
	}
	for name, holder := range names {
		if holder == id {
			return name
		}
	}
	return ""
}

// Names lists the reserved names and who has them.
func (s *Store) Names() (map[string]string, error) {
	dir := filepath.Join(s.state, "names")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make(map[string]string, len(entries))
	for _, e := range entries {
		if id, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			names[e.Name()] = id
		}
	}
	return names, nil
}

func (s *Store) withNames(do func(dir string) error) error {
	dir := filepath.Join(s.state, "names")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f, unix.LOCK_EX); err != nil {
		return err
	}
	return do(dir)
}

// SyncDir makes a directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ValidID says whether id can be a directory of the store.
func ValidID(id string) bool {
	return strings.HasPrefix(id, IDPrefix) && len(id) > len(IDPrefix) && !strings.ContainsAny(id, "/\\ \x00")
}
