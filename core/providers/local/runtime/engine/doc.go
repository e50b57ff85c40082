// Package engine runs one gVisor sandbox as child processes of this one.
//
// The calling process is a sandbox's supervisor. It was started in its own mount namespace, so that the engine's mounts
// end with the last process. Without root's rights it is also in a user namespace, in which it is uid 0.
//
// It imports gVisor, core, core/agent and runtime/hostview. Start reading at Start in box.go.
package engine
