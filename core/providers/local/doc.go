// Package local runs sandboxes on this machine with embedded gVisor: no daemon, no root and no image to download. This
// is the client's side. Each sandbox has its own supervisor, the program sb-runtime. A supervisor keeps running after
// the client has ended.
//
// It imports core, core/agent and the packages below it, but not gVisor. Start with Launch in launch.go.
package local
