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
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Store is the state directory of one user.
type Store struct{ state string }

// New returns the store below the directory state. It does no I/O.
func New(state string) *Store { return &Store{state: state} }

// Dir returns a sandbox's directory. It exists until the sandbox is terminated.
func (s *Store) Dir(id string) string { return filepath.Join(s.state, "sandboxes", id) }

// ImagesDir returns the directory of the stored images.
func (s *Store) ImagesDir() string { return filepath.Join(s.state, "images") }

// BuildDir returns the directory of the cache of builds.
func (s *Store) BuildDir() string { return filepath.Join(s.state, "builds") }

// RuntimeDir returns a sandbox's directory for sockets and gVisor's files while it runs. It is in the state directory,
// which all clients of a user share. XDG_RUNTIME_DIR differs between logins, and disappears with the last login.
func (s *Store) RuntimeDir(id string) string { return filepath.Join(s.Dir(id), runtimeDir) }

// GroupName returns the name of a sandbox's control group. Groups of other state directories have other names.
func (s *Store) GroupName(id string) string {
	return fmt.Sprintf("sb-%08x-%s", crc32.ChecksumIEEE([]byte(s.state)), id)
}

// Socket returns the path of a sandbox's socket. Its supervisor listens there.
func (s *Store) Socket(id string) string { return filepath.Join(s.RuntimeDir(id), SocketName) }

// ClientDir is the directory in a sandbox's directory that supervisors cannot see. Clients trust its content.
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
	rootFile    = ClientDir + "/root.json" // a second copy of Lease.Root: saved files are useless without it
	processFile = ClientDir + "/supervisor.json"
	stateFile   = "state.json"
	lockFile    = "lock"
	updateFile  = ClientDir + "/update.lock"
	runtimeDir  = "run"
)

// Lease is the content of lease.json: all data that exists before the sandbox does.
type Lease struct {
	ID    string     `json:"id"`
	Spec  core.Spec  `json:"spec"` // without the values of secrets
	Lease core.Lease `json:"lease"`
	// Root is the id of the image that is the sandbox's root directory; "" is this machine's programs.
	Root string `json:"root,omitempty"`
	// Damage is not nil if the file was damaged and this is its copy.
	Damage error `json:"-"`
}

// State is the content of state.json.
type State struct {
	State   core.State  `json:"state"`
	Reason  core.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Frozen  bool        `json:"frozen,omitempty"`
	BootID  string      `json:"boot_id"`
	PID     int         `json:"pid"`
	// PIDStart is the start time of that process, from core.ProcessStart.
	PIDStart uint64    `json:"pid_start,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Fixed means that a timeout was set: no lease changes Expires.
	Fixed      bool               `json:"fixed,omitempty"`
	LastActive time.Time          `json:"last_active,omitzero"`
	ExitCode   *int               `json:"exit_code,omitempty"`
	Ports      []core.PortMapping `json:"ports,omitempty"`
	// Denied counts the refusals of the network policy. Denial is the latest one.
	Denied int          `json:"denied,omitempty"`
	Denial *core.Denial `json:"denial,omitempty"`
	// Saved is the generation of the last saved filesystem; 0 is none. It is for display only: Saves finds the actual
	// generations.
	Saved int `json:"saved,omitempty"`
	// Note describes damage of the saved files at the last start.
	Note string `json:"note,omitempty"`
	// Damage is not nil if the file was damaged and this is its copy.
	Damage error `json:"-"`
}

// Create makes a sandbox's directory and takes its lock.
func (s *Store) Create(id string) (*Lock, error) {
	if err := atomicfile.MkdirAll(filepath.Join(s.state, "sandboxes"), 0o700); err != nil {
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

// Settle makes the directory of a sandbox durable, with its entries and its name. After a loss of power, the sandbox's
// durable files can be found.
func (s *Store) Settle(id string) error {
	return errors.Join(
		SyncDir(s.Dir(id)), SyncDir(filepath.Dir(s.Dir(id))), s.withNames(SyncDir),
	)
}

// ErrLocked means that another process holds the sandbox's lock.
var ErrLocked = errors.New("the sandbox is in use")

// Lock is a held lock of a sandbox. It passes to a child process that inherits File.
type Lock struct{ File *os.File }

// lookTime bounds the time that Locked and Abandoned hold a lock. lookPause is the interval of attempts to take it.
const lookTime, lookPause = 100 * time.Millisecond, 2 * time.Millisecond

// Lock takes a sandbox's lock, or returns ErrLocked after lookTime. fs.ErrNotExist: there is no such sandbox, or the
// holder of the lock removed it.
func (s *Store) Lock(id string) (*Lock, error) {
	var f *os.File
	// A lock file that is made during the removal of the directory would make the removal fail.
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

// lockPath returns the path of a sandbox's lock file.
func (s *Store) lockPath(id string) string { return filepath.Join(s.Dir(id), ClientDir, lockFile) }

func (s *Store) openLock(id string) (*os.File, error) {
	return OpenRegular(s.lockPath(id), os.O_CREATE|os.O_RDWR, 0o600)
}

// take locks an open file. After an error it closes the file.
func take(f *os.File) (*Lock, error) {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	// Locked and Abandoned hold it for a moment.
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

// Close releases the lock in this process. A process that inherited it keeps it.
func (l *Lock) Close() error { return l.File.Close() }

// Locked reports whether a process holds the sandbox's lock.
func (s *Store) Locked(id string) bool {
	return held(s.lockPath(id))
}

// Abandoned reports whether path exists while no process holds the sandbox's lock.
func (s *Store) Abandoned(id, path string) bool {
	return s.abandoned(s.lockPath(id), path)
}

// abandoned reports whether path exists while no process has locked the file lock. It holds the lock during the check
// of path, because path may be removed concurrently. It also holds the lock of names: a new lock file is locked a
// moment after it was made.
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

// held reports whether a process has locked a file.
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

// WriteLease writes lease.json in a sandbox's directory, durably. The caller holds the sandbox's lock, or is change in
// Update.
func WriteLease(dir string, l Lease) error {
	return WriteJSON(filepath.Join(dir, leaseFile), l, true)
}

// WriteRoot writes the id of the image of a sandbox's root directory, durably.
func WriteRoot(dir, image string) error { return WriteJSON(filepath.Join(dir, rootFile), image, true) }

// Root returns Lease.Root, even if lease.json and its copy are lost or damaged.
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

// ReadLease reads lease.json. fs.ErrNotExist: it was never written, or it and its copy are lost.
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

// Process identifies the supervisor of a sandbox. The client that started it records this.
type Process struct {
	PID int `json:"pid"`
	// Start is the start time of the process, from core.ProcessStart. BootID identifies the boot of the machine.
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// WriteProcess records a sandbox's supervisor. The caller holds the sandbox's lock.
func (s *Store) WriteProcess(id string, p Process) error {
	return WriteJSON(filepath.Join(s.Dir(id), processFile), p, false)
}

// ReadProcess reads the record of WriteProcess. fs.ErrNotExist: no supervisor was started yet.
func (s *Store) ReadProcess(id string) (p Process, err error) {
	_, err = ReadJSON(filepath.Join(s.Dir(id), processFile), &p)
	return p, err
}

// WriteState replaces state.json in a sandbox's directory. durable waits for the disk.
func WriteState(dir string, state State, durable bool) error {
	return WriteJSON(filepath.Join(dir, stateFile), state, durable)
}

// StatePath returns the path of state.json.
func (s *Store) StatePath(id string) string { return filepath.Join(s.Dir(id), stateFile) }

// ReadState reads state.json. fs.ErrNotExist: it was never written, or it and its copy are lost.
func (s *Store) ReadState(id string) (state State, err error) {
	damage, err := ReadJSON(filepath.Join(s.Dir(id), stateFile), &state)
	state.Damage = damage
	return state, err
}

// Remove removes all files of a sandbox, and then its name, if it still has it. The caller holds its lock.
func (s *Store) Remove(id, name string) error {
	if err := s.withdraw(id); err != nil {
		return err
	}
	// The lease and the lock are removed last, so that an interrupted removal still has a valid record.
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

// removedDir is the directory of saved files during their removal.
const removedDir = ".removed"

// withdraw makes it impossible to start a sandbox again. So an interrupted removal never leaves incomplete files that a
// start could use. It needs no disk space.
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

// Reserve gives a name to a sandbox. taken reports whether the current holder of the name still needs it. If so, the
// error is fs.ErrExist.
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

// Release removes a name if the sandbox holds it.
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

// Named returns the id of the sandbox with a name. fs.ErrNotExist: there is none.
func (s *Store) Named(name string) (string, error) {
	return os.Readlink(filepath.Join(s.state, "names", name))
}

// NameOf returns the name of a sandbox, or "" if it has none.
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

// Names returns the reserved names and the ids of their sandboxes.
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
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
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

// ValidID reports whether id can be a directory of the store.
func ValidID(id string) bool {
	return strings.HasPrefix(id, IDPrefix) && len(id) > len(IDPrefix) && !strings.ContainsAny(id, "/\\ \x00")
}
