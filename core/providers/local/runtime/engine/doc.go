// Package engine runs one gVisor sandbox as child processes of this one.
//
// The calling process is a sandbox's supervisor. It was started in a mount
// namespace of its own (and, unless it is root's, in a user namespace where it
// is uid 0), so that whatever the engine mounts is gone with the last process.
//
// It imports gVisor, core, core/agent and runtime/hostview. Start reading at Start in box.go.
package engine
