package packages

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// State is the state of an installation.
type State string

// The states.
const (
	Queued     State = "queued" // another installation comes first
	Installing State = "installing"
	Installed  State = "installed"
	Failed     State = "failed"
)

// Status describes an installation. The sandbox made the output, so Manager, Versions and Log are foreign text.
type Status struct {
	Exec     string    `json:"exec"`
	State    State     `json:"state"`
	Manager  string    `json:"manager"`
	Packages []string  `json:"packages"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	ExitCode *int      `json:"exit_code,omitempty"`
	// Versions has the versions of installed packages, by name.
	Versions map[string]string `json:"versions,omitempty"`
	// Log is the end of the output of an installation that failed.
	Log []string `json:"log,omitempty"`
}

// Journal reads commands and their output, as service.Execs does.
type Journal interface {
	List(ctx context.Context, ref string) ([]core.Exec, error)
	Logs(ctx context.Context, ref string, opts core.LogOptions) iter.Seq2[core.LogRecord, error]
}

// logLines is the number of lines of Status.Log.
const logLines = 10

// List returns the installations in a sandbox, oldest first.
func List(ctx context.Context, journal Journal, ref string) ([]Status, error) {
	execs, err := journal.List(ctx, ref)
	if err != nil {
		return nil, err
	}
	var found []Status
	for _, e := range execs {
		install, ok := Parse(e.Command)
		if !ok {
			continue
		}
		status, err := statusOf(ctx, journal, ref, e, install)
		if err != nil {
			return nil, err
		}
		found = append(found, status)
	}
	return found, nil
}

func statusOf(
	ctx context.Context, journal Journal, ref string, e core.Exec, install Install,
) (Status, error) {
	status := Status{
		Exec: e.ID, State: Installing, Manager: string(install.Manager), Packages: install.Packages,
		Started: e.Started, Ended: e.Ended,
	}
	var log lines
	for record, err := range journal.Logs(ctx, ref, core.LogOptions{Exec: e.ID, Tail: -1}) {
		if err != nil {
			return status, err
		}
		log.add(record.Stream, record.Data)
	}
	log.end(core.Stdout)
	log.end(core.Stderr)
	if log.manager != "" {
		status.Manager = log.manager
	} else if log.queued {
		status.State = Queued
	}
	if e.Exit == nil {
		return status, nil
	}
	status.ExitCode = &e.Exit.Code
	if status.State, status.Versions = Installed, log.versions; e.Exit.Code != 0 {
		status.State, status.Versions, status.Log = Failed, nil, log.last
	}
	return status, nil
}

// lines reads the output of install.sh.
type lines struct {
	held     map[core.Stream][]byte // of each stream, the line so far
	queued   bool
	manager  string
	versions map[string]string
	last     []string
}

// Bounds of the output of a sandbox: of a line, in bytes, and of the number of versions.
const (
	maxLine     = 4096
	maxVersions = 1000
)

func (l *lines) add(stream core.Stream, p []byte) {
	if l.held == nil {
		l.held = map[core.Stream][]byte{}
	}
	for _, b := range p {
		if b == '\n' {
			l.end(stream)
		} else if len(l.held[stream]) < maxLine {
			l.held[stream] = append(l.held[stream], b)
		}
	}
}

// end ends the line of a stream.
func (l *lines) end(stream core.Stream) {
	line := strings.TrimSpace(strings.ToValidUTF8(string(l.held[stream]), "\ufffd"))
	delete(l.held, stream)
	if line == "" {
		return
	}
	report, ours := strings.CutPrefix(line, "sb: ")
	words := strings.Fields(report)
	switch {
	case ours && report == "queued":
		l.queued = true
	case ours && len(words) == 3 && words[0] == "installing":
		l.manager = words[2]
	case ours && len(words) == 3 && words[0] == "installed" && len(l.versions) < maxVersions:
		if l.versions == nil {
			l.versions = map[string]string{}
		}
		l.versions[words[1]] = words[2]
	default:
		l.last = append(l.last[max(0, len(l.last)+1-logLines):], line)
	}
}
