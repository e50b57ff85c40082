package core

import "time"

// EventType names what happened.
type EventType string

const (
	// EventState reports a sandbox's new state, whoever caused it.
	EventState EventType = "state"
	// EventOperation reports an operation of a Service, once it is over.
	EventOperation EventType = "operation"
	// EventProgress reports a step of an operation. It may be dropped.
	EventProgress EventType = "progress"
	// EventExec reports that a command started or ended.
	EventExec EventType = "exec"
	// EventDenial reports that the network policy refused something. Several in a short time may be one event.
	EventDenial EventType = "denial"
)

// Event is one thing that happened. It holds no secrets.
type Event struct {
	Time     time.Time `json:"time"`
	Type     EventType `json:"type"`
	Provider string    `json:"provider,omitempty"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Name     string    `json:"name,omitempty"`
	// State, Reason and Message belong to EventState.
	State   State  `json:"state,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Op and Result belong to EventOperation: Result is "ok" or a Kind.
	Op     string `json:"op,omitempty"`
	Result string `json:"result,omitempty"`
	Actor  string `json:"actor,omitempty"`
	// Exec belongs to EventExec.
	Exec *Exec `json:"exec,omitempty"`
	// Denial belongs to EventDenial: the latest.
	Denial *Denial `json:"denial,omitempty"`
	// Progress belongs to EventProgress.
	Progress *Progress `json:"progress,omitempty"`
}
