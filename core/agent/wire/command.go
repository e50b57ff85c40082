package wire

import (
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Command describes a command to start: core.ExecSpec without its streams.
type Command struct {
	Argv []string          `json:"argv,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	// Secrets are variables whose values stay out of the journal.
	Secrets map[string]string `json:"secrets,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
	User    string            `json:"user,omitempty"`
	TTY     bool              `json:"tty,omitempty"`
	Size    core.TerminalSize `json:"size,omitzero"`
	Timeout time.Duration     `json:"timeout,omitempty"`
	Detach  bool              `json:"detach,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	// Stdin, Stdout and Stderr are the streams that the caller has. A socket carries their descriptors, in this order.
	// Without Stdin the command's stdin is empty.
	Stdin  bool `json:"stdin,omitempty"`
	Stdout bool `json:"stdout,omitempty"`
	Stderr bool `json:"stderr,omitempty"`
}
