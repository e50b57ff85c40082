package tui

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// The messages that effects come back with.
type (
	// tickMsg comes once a second.
	tickMsg struct{ now time.Time }
	// hurryMsg asks for the polls that are due.
	hurryMsg struct{}

	capabilitiesMsg map[string]core.Capabilities

	listedMsg struct {
		provider string
		listing  service.Listing
	}
	checkedMsg struct {
		provider string
		status   service.ProviderStatus
	}
	sampledMsg struct {
		provider string
		stats    []core.Stats
	}
	eventsMsg struct {
		events []core.Event
		// lost says that events may be missing before these.
		lost bool
	}
	attachedMsg struct {
		box core.Sandbox
		err error
	}

	// Messages to the tabs. gen tells those that are about a sandbox or tab that was left.
	logOpenedMsg struct {
		gen int
		log *logFeed
	}
	logMsg struct {
		gen   int
		batch []logBatch
		open  bool
	}
	execsMsg struct {
		gen   int
		execs []core.Exec
		err   error
	}
	dirMsg struct {
		gen   int
		path  string
		infos []core.FileInfo
		err   error
	}
	previewMsg struct {
		gen     int
		preview preview
	}
	historyMsg struct {
		gen     int
		records []service.AuditRecord
		err     error
	}

	networkMsg struct {
		gen   int
		found network
	}
	// sizedMsg has sandboxes that are to be terminated, with what their files take.
	sizedMsg struct{ boxes []core.Sandbox }
	// tunnelsMsg has the addresses of a sandbox's published ports.
	tunnelsMsg struct {
		box     core.Sandbox
		tunnels []core.Tunnel
		err     error
	}
	keptMsg struct {
		shelf string
		kept  service.Inventory[kept]
		err   error
	}

	// settledMsg comes when the cursor has rested a moment on a sandbox.
	settledMsg struct{ gen int }

	explainedMsg struct {
		seq       int
		placement service.Placement
		err       error
	}
	templatesMsg struct {
		templates []Template
		err       error
	}
	findingsMsg struct{ status service.ProviderStatus }

	progressMsg []jobProgress
	jobDoneMsg  struct {
		id  int
		err error
		// text is what to say on success; then is a message to handle after either.
		text string
		then any
	}
	// doneMsg ends a short operation that is no job.
	doneMsg struct {
		what string
		text string
		err  error
		// then is a message to handle after it.
		then any
	}
	startedMsg struct{ sandbox, exec string }

	shellEndedMsg struct {
		name string
		err  error
	}
	// asideMsg has something that wants the terminal for itself for a moment, asideOverMsg its end.
	asideMsg     struct{ run func() error }
	asideOverMsg struct{ err error }
	editReadyMsg struct{ edit edit }
	editedMsg    struct {
		edit edit
		err  error
	}
	toastOverMsg struct{ id int }
	saveMsg      struct{ seq int }
)
