// Package fake is a provider whose sandboxes live in this process's memory, for
// tests of what stands on providers. It fulfils the whole contract: a filesystem, a shell
// with the usual small programs, streams, signals, terminals, a journal, limits and lifetimes.
// Latency and faults are scripted with Inject, further programs are given as Go functions.
//
// It isolates nothing, and what runs in it cannot reach this machine's files or
// programs.
package fake
