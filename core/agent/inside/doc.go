// Package inside is the part of the agent that runs in a sandbox, as the program sb-guest. It enters by file descriptor
// and needs no file of the image: no shell, no tar, no libc. Package guest describes its command line and its streams.
// Start with Main.
//
// It imports core, other packages of core/agent and golang.org/x/sys, so that sb-guest is small.
package inside
