// Package code runs code in sessions: interpreters in a sandbox that keep their variables between runs. Code of other
// languages is a Program, which runs once (program.go).
//
// It imports core only. A session is a process of the sandbox, so it outlives its clients. driver/session.* is that
// process, one for each language. driver/bridge.* is the program of a command that connects to a session. It reads its
// own source from stdin, so the sandbox needs the interpreter only. Start with Sessions.Start.
//
// A client sends lines of JSON: {"op": "run", "code": CODE}, {"op": "cancel"} for a run that waits, {"op": "status"},
// and {"op": "start", "source": SOURCE}, which replies to the event "absent". When the bridge has put the source into a
// file, it sends "ready", and the client starts the session as a detached command. Event describes the other events.
// SIGINT interrupts the code that runs.
package code
