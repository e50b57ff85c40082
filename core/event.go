package core

import "time"

// EventType is the type of an event.
type EventType string

const (
	// EventState reports a sandbox's new state, whatever caused the change.
	EventState EventType = "state"
	// EventOperation reports a finished operation of a Service.
	EventOperation EventType = "operation"
	// EventProgress reports a step of an operation. It may be dropped.
	EventProgress EventType = "progress"
	// EventExec reports that a command started or ended.
	EventExec EventType = "exec"
	// EventDenial reports a refusal of the network policy. Several in a short time may be one event.
	EventDenial EventType = "denial"
)

// Event is one reported change or operation. It contains no secrets.
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
	// Denial belongs to EventDenial; it is the latest refusal.
	Denial *Denial `json:"denial,omitempty"`
	// Progress belongs to EventProgress.
	Progress *Progress `json:"progress,omitempty"`
}
