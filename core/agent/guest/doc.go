// Package guest is the language between sb-guest, the static helper that runs inside a sandbox, and the programs
// outside that start it. It has one process for each request:
//
//	sb-guest init                         pid 1: reaps orphans, runs the commands of spawn
//	sb-guest spawn                        has init run a command: see Spawn
//	sb-guest hostname NAME                names the sandbox
//	sb-guest pty ROWS COLS COMMAND [ARG]… runs COMMAND on a new terminal
//	sb-guest files REQUEST                one file operation; REQUEST is JSON
//	sb-guest watch REQUEST                reports changes below a path (see Watch); REQUEST is JSON
//	sb-guest dial PORT                    connects to a TCP port of the sandbox: a zero byte, then its output
//
// Descriptors of pty: 0 and 1 carry the terminal's bytes, 2 the report, 3 the control messages (see Resize and Signal);
// closing 3 only ends the messages.
//
// Files is the client of the file operations; a provider brings the Transport.
//
// Descriptors of files: 0 is the request's body, 1 the answer's, 2 the report. The body of a write is framed by
// NewBodyWriter and that of an import ends with the archive's trailer. So a broken stream never looks like a complete
// one. An answer is complete only when the process exits with 0.
//
// A report is one JSON object on descriptor 2 (see Report), written last. Other content there is a crash message.
//
// Paths travel as bytes (base64 in JSON, raw in tar): names need not be UTF-8.
//
// It imports core and the standard library, because sb-guest is small. Start with Request for the files, and with the
// names of the modes in guest.go.
package guest
