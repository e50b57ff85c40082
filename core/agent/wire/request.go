package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Verb is what a call asks for.
type Verb string

// The verbs. After VerbFiles the caller's 0 to 2 are sb-guest's own, as package guest has
// them. All others are answered in frames on 1. After a VerbFile another request may follow on the same call, VerbFile or
// VerbFiles; a FrameHeard comes before what answers it.
const (
	VerbExec   Verb = "exec"   // Started, then output; Control and stdin frames are taken
	VerbAttach Verb = "attach" // the same for a command that was started before
	VerbFiles  Verb = "files"
	VerbFile   Verb = "file"   // Reply.Answer and Reply.Report, of a file operation without a body and with a short answer
	VerbExecs  Verb = "execs"  // a FrameExec for each command
	VerbLogs   Verb = "logs"   // records
	VerbExpire Verb = "expire" // sets when the lifetime ends
	VerbStop   Verb = "stop"   // ends all commands and the box
	VerbPause  Verb = "pause"  // stops all processes, for engines that cannot
	VerbResume Verb = "resume"
	VerbUsage  Verb = "usage" // Reply.Usage, for engines that cannot tell
	VerbDial   Verb = "dial"  // connects to Port; after the Reply 0 and 1 carry the connection's bytes
)

// Request is one call. Zero fields are left out by verbs that have no use for them.
type Request struct {
	Verb Verb `json:"verb"`

	Command

	Exec   string    `json:"exec,omitempty"`
	Replay bool      `json:"replay,omitempty"`
	Follow bool      `json:"follow,omitempty"`
	Tail   int       `json:"tail,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`

	// File is a guest.Request's argv, for VerbFiles and VerbFile.
	File []string `json:"file,omitempty"`

	// Port is a TCP port on the sandbox's loopback, for VerbDial.
	Port int `json:"port,omitempty"`

	Expires time.Time `json:"expires,omitzero"`
	// Lease belongs to VerbExpire: it renews a lease, which changes nothing once the end was set without it.
	Lease bool `json:"lease,omitempty"`
	// Issued orders the requests of VerbExpire: one that is older than the last is refused.
	Issued time.Time     `json:"issued,omitzero"`
	Grace  time.Duration `json:"grace,omitempty"`
}

// Started answers VerbExec and VerbAttach.
type Started struct {
	ID string `json:"id"`
}

// Control is a message to a command that runs.
type Control struct {
	Signal int               `json:"signal,omitempty"`
	Size   core.TerminalSize `json:"size,omitzero"`
	// Broken names a stream whose reader is gone.
	Broken core.Stream `json:"broken,omitempty"`
}

// Reply is the last frame of a call.
type Reply struct {
	Error *Failure   `json:"error,omitempty"`
	Exit  *core.Exit `json:"exit,omitempty"`
	Usage *Usage     `json:"usage,omitempty"`
	// Answer and Report are what sb-guest wrote on 1 and on 2.
	Answer []byte `json:"answer,omitempty"`
	Report []byte `json:"report,omitempty"`
}

// Usage is what the processes of a box use, without its first one.
type Usage struct {
	CPU       time.Duration `json:"cpu"` // since the box started
	Memory    core.Bytes    `json:"memory"`
	Processes int           `json:"processes"`
}

// Failure is an error on the wire.
type Failure struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Fail describes err; nil for nil.
func Fail(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Kind: core.KindOf(err).String(), Message: err.Error(), Hint: core.HintOf(err)}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Err != nil {
		f.Subject, f.Message = e.Subject, e.Err.Error()
	}
	return f
}

// Err returns the failure as a *core.Error with that op, or nil.
func (f *Failure) Err(op string) error {
	if f == nil {
		return nil
	}
	return &core.Error{Kind: core.ParseKind(f.Kind), Op: op, Subject: f.Subject, Hint: f.Hint, Err: errors.New(f.Message)}
}

// NewKey returns a key for one box. A caller with the key may call the box. In the container, only the box's memory has
// it.
func NewKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key)
	return key
}

// signed is a request on the wire. Root in the container may control the process that carries it, so the request does
// not contain the key: that process can repeat a request but not create one.
type signed struct {
	Body []byte `json:"body"`
	MAC  []byte `json:"mac"`
}

// Sign returns the payload of a FrameRequest.
func (r Request) Sign(key []byte) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(signed{Body: body, MAC: mac(key, body)})
}

// Verify reads the payload of a FrameRequest. Errors are core.KindUnauthorized or KindUsage.
func Verify(key, payload []byte) (Request, error) {
	var s signed
	var r Request
	if err := json.Unmarshal(payload, &s); err != nil {
		return r, core.Errorf(core.KindUsage, "call", "", "the request is damaged: %w", err)
	}
	if !hmac.Equal(s.MAC, mac(key, s.Body)) {
		return r, core.Errorf(core.KindUnauthorized, "call", "", "the request is not signed by this sandbox's owner")
	}
	if err := json.Unmarshal(s.Body, &r); err != nil {
		return r, core.Errorf(core.KindUsage, "call", "", "the request is damaged: %w", err)
	}
	return r, nil
}

func mac(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(body)
	return h.Sum(nil)
}
