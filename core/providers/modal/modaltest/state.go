package modaltest

import (
	"context"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// defaultEnvironment is the environment of objects that name none.
const defaultEnvironment = "main"

// state is the server's state. Server.mu guards it, and the fields of its objects that are marked as guarded.
type state struct {
	environments map[string]*environment
	apps         map[string]*app
	images       map[string]*image
	builds       map[string]string // image ids by recipe
	tags         map[objectName]published
	secrets      map[string]*secret
	volumes      map[string]*volume
	// snapshots are the server's snapshots at the backend.
	snapshots map[string]bool
	memories  map[string]*memory
	sandboxes map[string]*sandbox
	tasks     map[string]*sandbox
}

// objectName names an object in its environment.
type objectName struct{ environment, name string }

// published is an image under a name. created is the time of the name, updated the time of its current image.
type published struct {
	image            string
	created, updated time.Time
}

type environment struct {
	id, name string
	created  time.Time
}

type app struct {
	id, environment, name string
	created               time.Time
}

type secret struct {
	id, environment, name string
	env                   map[string]string
	created               time.Time
}

type volume struct {
	id, environment, name string
	version               pb.VolumeFsVersion
	created               time.Time
	// dir holds the committed files; lock is held during reads and changes.
	dir  string
	lock sync.Mutex
}

// sandbox is a sandbox for clients, together with the backend's sandbox.
type sandbox struct {
	id, task   string
	second     bool // of the second generation
	definition *pb.Sandbox
	app        *app
	created    time.Time
	env        []core.Secret
	workdir    string
	hasEntry   bool
	// entryInside is true if the backend's sandbox starts with the entry command. A sandbox that is restored from its
	// memory snapshot resumes that command. The command has no input.
	entryInside bool
	// from is the memory snapshot from which it resumes; nil means an image.
	from *memory
	// giveUp ends wanted. After that the server does not wait for the sandbox.
	wanted context.Context //nolint:containedctx // it is the sandbox's own life, not a caller's
	giveUp context.CancelFunc
	// ready is closed when the backend's sandbox runs or can never run.
	ready chan struct{}
	// ended is closed when result is set.
	ended chan struct{}
	entry *command
	below *image
	// tool guards hasTool: whether the file tool's helper is in the sandbox.
	tool    sync.Mutex
	hasTool bool
	// exit is its exit snapshot; nil means none.
	exit *exitSnapshot
	// mounts are its volumes.
	mounts []*mount
	// begun is the time at which the entry command had started. It is set before ready is closed.
	begun time.Time

	// inputs counts the accepted writes to stdin in the first generation; guarded by inputMu.
	inputMu sync.Mutex
	inputs  uint32

	// Guarded by Server.mu.
	name       string
	tags       map[string]string
	backend    core.Sandbox
	result     *pb.GenericResult
	endedAt    time.Time
	commands   map[string]*command
	retired    []*command // ended commands, oldest first
	lastActive time.Time
	startedAt  time.Time // zero while it is queued
	busy       int
	network    *pb.NetworkAccess
	readyAt    time.Time
}

func newState() state {
	st := state{
		environments: map[string]*environment{}, apps: map[string]*app{}, images: map[string]*image{},
		builds: map[string]string{},
		tags:   map[objectName]published{}, snapshots: map[string]bool{}, memories: map[string]*memory{},
		secrets: map[string]*secret{}, volumes: map[string]*volume{},
		sandboxes: map[string]*sandbox{}, tasks: map[string]*sandbox{},
	}
	st.environments[defaultEnvironment] = &environment{id: newID("en-"), name: defaultEnvironment, created: time.Now()}
	return st
}

// environmentName returns the environment of a request.
func environmentName(name string) string {
	if name == "" {
		return defaultEnvironment
	}
	return name
}

// live reports whether a sandbox has not ended. The caller holds Server.mu.
func (b *sandbox) live() bool { return b.result == nil }
