package tui

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/feed"
)

// The messages that effects return.
type (
	// tickMsg arrives once per second.
	tickMsg struct{ now time.Time }
	// hurryMsg starts the due polls.
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
		// lost reports that events before these may be missing.
		lost bool
	}
	attachedMsg struct {
		box core.Sandbox
		err error
	}

	// Messages for the tabs. gen identifies the shown sandbox or log: a message with an older number is stale.
	logOpenedMsg struct {
		gen int
		log *feed.Log
	}
	logMsg struct {
		gen   int
		batch []feed.LogBatch
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
	// sizedMsg has the sandboxes to terminate, with the size of their files.
	sizedMsg struct{ boxes []core.Sandbox }
	// tunnelsMsg has the addresses of a sandbox's published ports.
	tunnelsMsg struct {
		box     core.Sandbox
		tunnels []core.Tunnel
		err     error
	}
	storeMsg struct {
		store string
		items service.Inventory[storedItem]
		err   error
	}

	// settledMsg arrives when the cursor has rested on a sandbox for settleTime.
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
		// text is the notice on success; then is a message to handle in any case.
		text string
		then any
	}
	// doneMsg ends a short operation without a job.
	doneMsg struct {
		what string
		text string
		err  error
		// then is a message to handle afterwards.
		then any
	}
	startedMsg struct{ sandbox, exec string }

	shellEndedMsg struct {
		name string
		err  error
	}
	// asideMsg has a function that needs the terminal for a moment; asideOverMsg reports its end.
	asideMsg     struct{ run func() error }
	asideOverMsg struct{ err error }
	// handOverMsg reports that the terminal can be handed over again.
	handOverMsg  struct{}
	editReadyMsg struct{ edit edit }
	editedMsg    struct {
		edit edit
		err  error
	}
	toastOverMsg struct{ id int }
	saveMsg      struct{ seq int }
)
