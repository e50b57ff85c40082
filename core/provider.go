package core

import (
	"context"
	"io"
	"iter"
	"time"
)

// Provider runs sandboxes in one place. Its methods may be called at the same
// time from several goroutines, stop promptly when ctx ends, and return errors
// that carry a Kind. Sandboxes outlive the Provider value and the process that holds it.
//
// What only some providers can do is an optional interface, here or beside the operation that needs it, found with As.
type Provider interface {
	// Name is the provider's name in references, configuration and output.
	Name() string
	// Capabilities tells what the provider can do. It does no I/O: until Check succeeded it
	// may tell more than this machine or engine turns out to be able to, never less.
	Capabilities() Capabilities
	// Check tells whether the provider is usable now. The error's hint says how to make it so.
	Check(ctx context.Context) error
	// Launch builds a sandbox and returns once commands can be run in it. spec is
	// valid, has a name, and asks for nothing that Capabilities excludes. lease is
	// made durable before anything is built. When Launch fails, nothing is left
	// behind. KindConflict: the name is taken by a live sandbox.
	Launch(ctx context.Context, spec Spec, lease Lease, progress ProgressFunc) (Sandbox, error)
	// Get returns one sandbox by its id, dead ones too until they are terminated or pruned.
	Get(ctx context.Context, id string) (Sandbox, error)
	// List returns the sandboxes that this user has here, dead ones included, in no order.
	// A sandbox whose state cannot be read is listed as lost, never left out.
	List(ctx context.Context) ([]Sandbox, error)
	// Exec starts a command. ctx bounds the start only; see Process for the rest. A
	// program that is not there or cannot be executed is no error: the Process has
	// ended with code 127 or 126 and says so in Exit.Message.
	// KindConflict: the sandbox does not run.
	Exec(ctx context.Context, id string, spec ExecSpec) (Process, error)
	// Terminate ends a sandbox and removes everything it left, journal and files
	// included. It is idempotent: a sandbox that is gone is KindNotFound.
	Terminate(ctx context.Context, id string) error
	// Close releases this process's connections. Sandboxes go on.
	Close() error
}

// ProgressFunc is told what a long operation does; nil means nobody listens. It must return soon.
type ProgressFunc func(Progress)

// Progress is one step of a long operation.
type Progress struct {
	// Step is a short phrase in the present: "pulling python:3.12".
	Step string `json:"step"`
	// Done and Total are in bytes; Total 0 means unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Rare says that the step takes long and hardly ever comes: it is told even where nobody watches the steps.
	Rare bool `json:"rare,omitempty"`
}

// Finder finds sandboxes by name without listing them all.
type Finder interface {
	// FindName returns the live sandbox of that name, or else the youngest dead
	// one; KindNotFound when there is none.
	FindName(ctx context.Context, name string) (Sandbox, error)
}

// Waiter waits for the end of a sandbox.
type Waiter interface {
	// WaitSandbox blocks until the sandbox is not live or stopped, and returns it as it is then: neither its reason
	// nor its exit code changes any more. One that is terminated meanwhile is KindNotFound, or exited with ReasonStopped.
	WaitSandbox(ctx context.Context, id string) (Sandbox, error)
}

// Ender ends sandboxes as Terminate does, and tells with which exit code.
type Ender interface {
	// End is Terminate. The code is that of the entry command, or the one that the provider gives a sandbox that it ended; nil when it tells none.
	End(ctx context.Context, id string) (*int, error)
}

// Stopper stops sandboxes so that they can be started again.
type Stopper interface {
	// Stop ends every command (SIGTERM, after grace SIGKILL) and keeps the
	// filesystem. KindConflict: the sandbox is not persistent, or not running.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Start brings a stopped sandbox back, or one that crashed, with its filesystem as last saved.
	Start(ctx context.Context, id string) (Sandbox, error)
}

// Pauser suspends every process of a sandbox, in memory.
type Pauser interface {
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
}

// Renewer changes how long a sandbox lives.
type Renewer interface {
	// SetTimeout makes the sandbox end so long from now, whoever is there then; 0 means never. That is its last
	// word: Lease.Renewed is false from then on, and KeepAlive changes nothing any more.
	SetTimeout(ctx context.Context, id string, timeout time.Duration) (Sandbox, error)
	// KeepAlive makes a sandbox whose lease is renewed end so long from now.
	KeepAlive(ctx context.Context, id string, lease time.Duration) error
}

// SecretTeller tells the secrets that a running sandbox was given, so that a frontend that did not give them
// keeps them out of what it shows. Whoever may ask could as well run a command that prints them.
type SecretTeller interface {
	// GivenSecrets returns those of the launch, with their values, and those of commands as far as they are known.
	GivenSecrets(ctx context.Context, id string) ([]Secret, error)
}

// Journaler keeps a journal of the commands run in a sandbox, over the end of
// the process that started them and of the sandbox itself.
type Journaler interface {
	// Execs returns the journal, oldest first; the entry command is "0".
	Execs(ctx context.Context, id string) ([]Exec, error)
}

// Attacher connects to commands by their ids.
type Attacher interface {
	// Attach connects to a running command. Of one that ended, the Process replays
	// what is asked for and is over. exec is any text: one that is not the id of a
	// command in this sandbox is KindNotFound.
	Attach(ctx context.Context, id, exec string, streams Streams) (Process, error)
}

// LogReader reads what commands wrote.
type LogReader interface {
	// Logs yields records oldest first, and at most one error, last.
	Logs(ctx context.Context, id string, opts LogOptions) iter.Seq2[LogRecord, error]
}

// FileSystem reads and writes files in a running sandbox, as the sandbox's user. Paths are absolute,
// slash separated and clean. Errors: KindNotFound, KindConflict (exists, or is a
// directory where a file is wanted), KindUnauthorized, KindExhausted (disk full).
type FileSystem interface {
	Stat(ctx context.Context, id, path string) (FileInfo, error)
	// ReadDir returns the entries sorted by path.
	ReadDir(ctx context.Context, id, path string) ([]FileInfo, error)
	// ReadFile returns the content of a regular file, following links. The caller closes it.
	ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error)
	// WriteFile creates or replaces a file at once: readers see the old content or the new.
	// Nothing changes when content fails. Content that blocks may be read once more after a failure.
	WriteFile(ctx context.Context, id, path string, content io.Reader, opts WriteOptions) error
	// Mkdir makes a directory, with its parents when parents is set (then one that exists is fine).
	Mkdir(ctx context.Context, id, path string, parents bool) error
	// Remove removes a file or an empty directory, or with recursive a whole tree.
	Remove(ctx context.Context, id, path string, recursive bool) error
	// Export streams path as a tar archive (PAX). Entry names begin with path's last element; links are not followed.
	Export(ctx context.Context, id, path string) (io.ReadCloser, error)
	// Import unpacks a tar archive into the directory dir, which exists. Each file
	// replaces its predecessor at once; an entry or link that points outside dir is refused. Nothing is outside of "/".
	Import(ctx context.Context, id, dir string, archive io.Reader, opts ImportOptions) error
}

// Sizer tells what the files of a sandbox take, running or not.
type Sizer interface {
	// Size returns what was written in it, as it is kept on disk or in memory. It may take as long as reading a directory tree does.
	Size(ctx context.Context, id string) (Bytes, error)
}

// StatsReader measures sandboxes.
type StatsReader interface {
	Stats(ctx context.Context, id string) (Stats, error)
}

// Watcher reports changes that this process did not make.
type Watcher interface {
	// Watch yields events until ctx ends or it fails; the error comes last.
	Watch(ctx context.Context) iter.Seq2[Event, error]
}

// Sweeper knows what was left behind here beyond the sandboxes that List returns:
// half-made ones, files of crashed supervisors, mounts.
type Sweeper interface {
	// Leftovers finds what nothing owns any more. It changes nothing.
	Leftovers(ctx context.Context) ([]Leftover, error)
	// Sweep removes one of them.
	Sweep(ctx context.Context, leftover Leftover) error
}

// Leftover is something that a crash left behind.
type Leftover struct {
	Provider string `json:"provider"`
	// Subject is a sandbox id or a path.
	Subject string `json:"subject"`
	// Why says what it is and how it is known to be left behind.
	Why  string `json:"why"`
	Size Bytes  `json:"size,omitempty"`
}

// Doctor looks closer than Check: one finding for each thing that the provider needs or could use.
type Doctor interface {
	Diagnose(ctx context.Context) []Finding
}

// Finding is one thing that was looked at.
type Finding struct {
	// Name is what was looked at: "user namespaces".
	Name string `json:"name"`
	// Status is "ok", "warning" (works, with less) or "error" (does not work).
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Fix is the exact command or setting that mends it.
	Fix string `json:"fix,omitempty"`
}

// Unwrapper is a provider that decorates another (to retry or to measure, never to decide).
type Unwrapper interface{ Unwrap() Provider }

// As finds the optional interface T in p or in what it decorates.
func As[T any](p Provider) (T, bool) {
	for p != nil {
		if t, ok := p.(T); ok {
			return t, true
		}
		u, ok := p.(Unwrapper)
		if !ok {
			break
		}
		p = u.Unwrap()
	}
	var zero T
	return zero, false
}

// Factory makes a provider when it is first needed.
type Factory struct {
	Name string
	// IDPrefix begins the id of each of its sandboxes: "loc-".
	IDPrefix string
	// Open connects nothing; it fails only for a configuration that can never work.
	Open func() (Provider, error)
}
