package guest

import "encoding/json"

// ModeSpawn is the helper's first argument to pass a command to init.
const ModeSpawn = "spawn"

// SpawnSocket is where init waits for "sb-guest spawn" inside. It lies in a separate filesystem in memory. An abstract
// address would not survive in a copy of the sandbox, and the user controls the sandbox's root.
const SpawnSocket = "/dev/.sb-guest"

// SpawnReportFD is where "sb-guest spawn" writes its SpawnReports, as lines of JSON.
const SpawnReportFD = 3

// MaxSpawn bounds a Spawn in bytes.
const MaxSpawn = 4 << 20

// Spawn is a request to init to run a command, or to control one that init runs. Such a command is a child of the
// sandbox's first process, so it continues in a fork of the sandbox. A fork kills commands started from outside. Its
// output goes through pipes inside, so that changes outside do not affect it.
type Spawn struct {
	// ID names the command to init.
	ID string `json:"id"`
	// Attach requests the outputs and the end of a running command. The fields below are then unused.
	Attach bool     `json:"attach,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	UID    uint32   `json:"uid,omitempty"`
	GID    uint32   `json:"gid,omitempty"`
	Groups []uint32 `json:"groups,omitempty"`
}

// SpawnReport is a report on a spawned command: first its PID or the error, last its end.
type SpawnReport struct {
	PID   int      `json:"pid,omitempty"`
	Exit  *Exit    `json:"exit,omitempty"`
	Error *Failure `json:"error,omitempty"`
}

// ModeHostname is the helper's first argument when it names the sandbox.
const ModeHostname = "hostname"

// HostnameArgv returns the command line that gives the sandbox's kernel a host name.
func HostnameArgv(name string) []string { return []string{Program, ModeHostname, name} }

// SpawnArgv returns the command line that takes a Spawn on descriptor 0 and passes on descriptors 1 and 2 as the
// command's outputs.
func SpawnArgv() []string { return []string{Program, ModeSpawn} }

// Encode returns the spawn as the line that goes to init.
func (s Spawn) Encode() ([]byte, error) {
	text, err := json.Marshal(s)
	return append(text, '\n'), err
}
