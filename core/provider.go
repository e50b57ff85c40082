package core

import (
	"context"
	"io"
	"iter"
	"time"
)

// Provider runs sandboxes in one place. Its methods are safe for concurrent use, stop promptly when ctx ends, and
// return errors with a Kind. Sandboxes outlive the Provider value and its process.
//
// Optional features are optional interfaces, here or beside the operation that needs them. Find them with a type
// assertion, or with Optional, which also checks the engine behind the provider.
type Provider interface {
	// Name is the provider's name in references, configuration and output.
	Name() string
	// Capabilities returns the provider's features without I/O. Before Check succeeds it may include features that this
	// machine or engine turns out to lack. It never omits one.
	Capabilities() Capabilities
	// Check reports whether the provider is usable now. The error's hint has the fix.
	Check(ctx context.Context) error
	// Launch builds a sandbox and returns when commands can run in it. spec is valid, has a name, and requires no
	// capability that the provider lacks. lease is durable before Launch creates any object. If Launch fails, it removes
	// all of them. KindConflict: a live sandbox has the name.
	Launch(ctx context.Context, spec Spec, lease Lease, progress ProgressFunc) (Sandbox, error)
	// Get returns a sandbox by its id; dead ones too, until they are terminated or pruned.
	Get(ctx context.Context, id string) (Sandbox, error)
	// List returns this user's sandboxes, dead ones included, in no order. A sandbox with unreadable state is listed as
	// lost, never omitted.
	List(ctx context.Context) ([]Sandbox, error)
	// Exec starts a command. ctx bounds only the start; see Process for the rest. A program that does not exist or cannot
	// be executed is no error. The Process has then ended with code 127 or 126, and Exit.Message has the reason.
	// KindConflict: the sandbox does not run.
	Exec(ctx context.Context, id string, spec ExecSpec) (Process, error)
	// Terminate ends a sandbox and removes its leftovers, journal and files included. It may be repeated: a sandbox that
	// is already removed is KindNotFound.
	Terminate(ctx context.Context, id string) error
	// Close releases this process's connections. Sandboxes keep running.
	Close() error
}

// ProgressFunc receives the steps of a long operation; it may be nil. It must return quickly.
type ProgressFunc func(Progress)

// Progress is one step of a long operation.
type Progress struct {
	// Step is a short phrase in the present: "pulling python:3.12".
	Step string `json:"step"`
	// Done and Total are in bytes; Total 0 means unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Log means that Step is a line of the output of a build, or a warning.
	Log bool `json:"log,omitempty"`
	// Rare marks a slow step that seldom occurs. Frontends show it even when they hide other steps.
	Rare bool `json:"rare,omitempty"`
}

// Finder finds sandboxes by name without listing them all.
type Finder interface {
	// FindName returns the live sandbox of that name, or else the youngest dead one. KindNotFound: there is none.
	FindName(ctx context.Context, name string) (Sandbox, error)
}

// Waiter waits for sandboxes to end.
type Waiter interface {
	// WaitSandbox blocks until the sandbox has ended or is stopped, and returns it. Its reason and exit code are final. A
	// sandbox that is terminated during the wait is KindNotFound, or exited with ReasonStopped.
	WaitSandbox(ctx context.Context, id string) (Sandbox, error)
}

// Ender ends sandboxes as Terminate does and returns the exit code.
type Ender interface {
	// End is Terminate with an exit code. It is the entry command's, or the one that the provider assigns to a terminated
	// sandbox, or nil without one.
	End(ctx context.Context, id string) (*int, error)
}

// Stopper stops sandboxes so that they can start again.
type Stopper interface {
	// Stop ends every command and keeps the filesystem. Processes get SIGTERM, and SIGKILL after grace. With an entry
	// command, the image's stop signal replaces SIGTERM. KindConflict: the sandbox is not persistent, or not running.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Start restarts a stopped or crashed sandbox with its last saved filesystem.
	Start(ctx context.Context, id string) (Sandbox, error)
}

// Pauser suspends all processes of a sandbox; they stay in memory.
type Pauser interface {
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
}

// Renewer changes a sandbox's lifetime.
type Renewer interface {
	// SetTimeout sets the remaining lifetime of the sandbox, even while it is in use; 0 means no limit. It turns renewal
	// off: Lease.Renewed becomes false, and KeepAlive has no effect after that.
	SetTimeout(ctx context.Context, id string, timeout time.Duration) (Sandbox, error)
	// KeepAlive sets the remaining lifetime of a sandbox with a renewed lease.
	KeepAlive(ctx context.Context, id string, lease time.Duration) error
}

// SecretLister returns the secrets of a running sandbox, so that every frontend can redact them in output. A caller
// with access could also print them with a command.
type SecretLister interface {
	// GivenSecrets returns the secrets of the launch, with their values, and the known secrets of commands.
	GivenSecrets(ctx context.Context, id string) ([]Secret, error)
}

// Journaler keeps a journal of the commands in a sandbox. The journal outlives the process that started them and the
// sandbox's run.
type Journaler interface {
	// Execs returns the journal, oldest first; the entry command is "0".
	Execs(ctx context.Context, id string) ([]Exec, error)
}

// ExecFinder finds commands by their ids. It is for providers that cannot list commands, and so do not implement
// Journaler.
type ExecFinder interface {
	// ExecEnd returns how a command ended, or nil while it runs. exec is unchecked text. KindNotFound: the provider has no
	// command with this id.
	ExecEnd(ctx context.Context, id, exec string) (*Exit, error)
}

// Attacher connects to commands by their ids.
type Attacher interface {
	// Attach connects to a running command. For one that has ended, the Process replays the requested output and ends.
	// exec is unchecked text: KindNotFound if it is not the id of a command in this sandbox.
	Attach(ctx context.Context, id, exec string, streams Streams) (Process, error)
}

// LogReader reads the output of commands.
type LogReader interface {
	// Logs yields records, oldest first. An error is the last value.
	Logs(ctx context.Context, id string, opts LogOptions) iter.Seq2[LogRecord, error]
}

// RootFiler reads and writes files with the rights of root, for operations that concern the whole sandbox.
type RootFiler interface {
	// FilesAsRoot returns the file system as root, whatever the sandbox's user is.
	FilesAsRoot() FileSystem
}

// FileSystem reads and writes files in a running sandbox as the sandbox's user. Paths are absolute, slash separated and
// clean. Errors: KindNotFound, KindConflict (the path exists, or is a directory instead of a file), KindUnauthorized,
// KindExhausted (disk full).
type FileSystem interface {
	Stat(ctx context.Context, id, path string) (FileInfo, error)
	// ReadDir returns the entries sorted by path.
	ReadDir(ctx context.Context, id, path string) ([]FileInfo, error)
	// ReadFile returns the content of a regular file, following links. The caller closes it.
	ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error)
	// WriteFile creates or replaces a file atomically: readers see the old content or the new. If content fails, nothing
	// changes. A content reader that blocks may be read once more after a failure.
	WriteFile(ctx context.Context, id, path string, content io.Reader, opts WriteOptions) error
	// Mkdir creates a directory. With parents it creates missing parents too and accepts an existing directory.
	Mkdir(ctx context.Context, id, path string, parents bool) error
	// Remove removes a file or an empty directory; with recursive, a whole tree.
	Remove(ctx context.Context, id, path string, recursive bool) error
	// Export streams path as a tar archive (PAX). Entry names begin with the last element of path. Links are not followed.
	Export(ctx context.Context, id, path string) (io.ReadCloser, error)
	// Import unpacks a tar archive into the existing directory dir. Each file is replaced atomically. Entries and links
	// that point outside dir are rejected; with dir "/" none do.
	Import(ctx context.Context, id, dir string, archive io.Reader, opts ImportOptions) error
}

// Sizer measures the files of a sandbox, running or not.
type Sizer interface {
	// Size returns the size of the files written in the sandbox, on disk or in memory. It may take as long as reading a
	// directory tree.
	Size(ctx context.Context, id string) (Bytes, error)
}

// StatsReader measures sandboxes.
type StatsReader interface {
	Stats(ctx context.Context, id string) (Stats, error)
}

// Watcher reports changes that this process did not make.
type Watcher interface {
	// Watch yields events until ctx ends or it fails; an error is the last value.
	Watch(ctx context.Context) iter.Seq2[Event, error]
}

// Sweeper finds leftovers other than the sandboxes that List returns: half-made sandboxes, files of crashed
// supervisors, mounts.
type Sweeper interface {
	// Leftovers returns the objects without an owner. It is read-only.
	Leftovers(ctx context.Context) ([]Leftover, error)
	// Sweep removes a leftover.
	Sweep(ctx context.Context, leftover Leftover) error
}

// Leftover is an object that remained after a crash.
type Leftover struct {
	Provider string `json:"provider"`
	// Subject is a sandbox id or a path.
	Subject string `json:"subject"`
	// Why describes the object and the reason that it counts as a leftover.
	Why  string `json:"why"`
	Size Bytes  `json:"size,omitempty"`
}

// Doctor checks more than Check does: one finding for each requirement and option of the provider.
type Doctor interface {
	Diagnose(ctx context.Context) []Finding
}

// Finding is the result of one check.
type Finding struct {
	// Name is the subject of the check: "user namespaces".
	Name string `json:"name"`
	// Status is "ok", "warning" (works with limits) or "error" (does not work).
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Fix is the exact command or setting that fixes it.
	Fix string `json:"fix,omitempty"`
}

// Factory creates a provider on first use.
type Factory struct {
	Name string
	// IDPrefix is the prefix of its sandbox ids: "loc-".
	IDPrefix string
	// CheckSpec checks the section of a spec that only this provider understands, without opening the provider. It is nil
	// if there is no such section. The error is KindUsage.
	CheckSpec func(Spec) error
	// Open makes no connection. It fails only for a configuration that can never work.
	Open func() (Provider, error)
}
