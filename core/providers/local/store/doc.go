// Package store is the local provider's state directory, as clients and
// supervisors both read and write it:
//
//	names/.lock               taken while a name is reserved or released, and while something is made and locked or removed
//	names/NAME                symbolic link to the id that has the name
//	sandboxes/ID/lock         flocked by whoever is responsible: first the client
//	                          that launches, then, for life, the supervisor
//	sandboxes/ID/lease.json   what was asked for and for whom; written first
//	sandboxes/ID/state.json   what the supervisor last said
//	sandboxes/ID/run/         sockets and what gVisor needs while the sandbox runs; it goes last when the sandbox ends
//	sandboxes/ID/journal/     commands and their output: package journal
//	sandboxes/ID/fs/N/        saved filesystems of a persistent sandbox
//	sandboxes/ID/image/       memory and files of a fork's source, until the fork runs
//	checkpoints/NAME/checkpoint.json, image/   a checkpoint; .new-* is one that is being made or removed
//	snapshots/NAME/snapshot.json, fs/          likewise a snapshot
//
// A sandbox lives if its lock is taken: no process number is ever believed. Files
// are replaced by rename, so that a reader sees the old or the new, whole.
package store

// IDPrefix begins the id of every local sandbox.
const IDPrefix = "loc-"
