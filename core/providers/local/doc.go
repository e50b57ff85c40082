// Package local runs sandboxes on this machine with embedded gVisor: no daemon, no root and no image to download. This
// is the client's side. Each sandbox has its own supervisor, the program sb-runtime. A supervisor keeps running after
// the client has ended.
//
// It imports core, core/agent and the packages below it, but not gVisor. It has more than 30 files because each has one
// optional interface of the provider, or one step of a launch. Start with Launch in launch.go.
package local
