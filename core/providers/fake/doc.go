// Package fake is a provider whose sandboxes live in this process's memory, for tests. It fulfills the whole contract:
// a filesystem, a shell with the usual small programs, streams, signals, terminals, a journal, limits and lifetimes.
// Latency and faults are scripted with Inject. Further programs are Go functions.
//
// It isolates nothing. Its programs cannot access this machine's files or programs.
//
// It imports core and the parser of mvdan.cc/sh. Start with New in fake.go; keeper.go adds the stores of a cloud.
package fake
