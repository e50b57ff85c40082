// Package store is the local provider's state directory, as clients and
// supervisors both read and write it:
//
//	names/.lock               taken while a name is reserved or released, or something is made or removed
//	names/NAME                symbolic link to the id that has the name
//	sandboxes/ID/client/      what supervisors do not see, and clients believe:
//	    lock                  flocked by the responsible process: first the client
//	                          that launches, then, for life, the supervisor
//	    lease.json            what was asked for and for whom; written first
//	    cgroup.json           where its control group is
//	    secrets.json          the secrets of a persistent sandbox
//	    supervisor.json       the process of its supervisor
//	    update.lock           flocked while a client changes the lease of a running sandbox
//	sandboxes/ID/state.json   what the supervisor last said
//	sandboxes/ID/out-*/       what the supervisor writes for a client
//	sandboxes/ID/run/         sockets and what gVisor needs while the sandbox runs; it goes last when the sandbox ends
//	sandboxes/ID/journal/     commands and their output: package journal
//	sandboxes/ID/fs/N/        saved filesystems of a persistent sandbox, one for each generation: the newest and the
//	                          good one before it; N.new is being written, N.damaged was found damaged
//	sandboxes/ID/image/       memory and files of a fork's source, until the fork runs
//	checkpoints/NAME/checkpoint.json, image/   a checkpoint; .new-* is one that is being made or removed
//	snapshots/NAME/snapshot.json, fs/          likewise a snapshot
//
// A sandbox lives if its lock is taken: no process number is ever believed. Files
// are replaced by rename, so that a reader sees the old or the new, whole.
//
// Each file of JSON is sealed: it holds a generation, a checksum and the content, and NAME.copy beside it is its copy,
// which is written when the file is proved. A file that is lost or damaged is read from its copy. Each directory of
// data (fs/N, image of a checkpoint, fs of a snapshot) is sealed, too: sums.json lists its files with sizes and
// checksums, and they are compared before a sandbox starts from them. A file without a usable copy is never taken for
// one that was not written: the message names it, and nothing is removed for it.
//
// It imports core. Start with Store in store.go.
package store

// IDPrefix begins the id of every local sandbox.
const IDPrefix = "loc-"
