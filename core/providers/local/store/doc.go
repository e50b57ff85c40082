// Package store is the local provider's state directory. Clients and supervisors read and write it:
//
//	names/.lock               locked while a name is reserved or released, and while something is made or removed
//	names/NAME                symbolic link to the id of the sandbox with the name
//	sandboxes/ID/client/      trusted by clients, because supervisors cannot see it:
//	    lock                  flocked by the responsible process: first the launching client,
//	                          then the supervisor until its end
//	    lease.json            the spec and the owner; written first
//	    cgroup.json           the location of its control group
//	    secrets.json          the secrets of a persistent sandbox
//	    supervisor.json       the process of its supervisor
//	    update.lock           flocked while a client changes the lease of a running sandbox
//	sandboxes/ID/state.json   the last state that the supervisor wrote
//	sandboxes/ID/out-*/       files that the supervisor writes for a client
//	sandboxes/ID/run/         sockets and files of gVisor while the sandbox runs; removed last when the sandbox ends
//	sandboxes/ID/journal/     commands and their output: package journal
//	sandboxes/ID/fs/N/        saved filesystems of a persistent sandbox, one for each generation: the newest and the
//	                          intact one before it; N.new is being written, N.damaged was found damaged
//	sandboxes/ID/image/       memory and files of a fork's source, until the fork runs
//	spares/ID                 the ticket of a sandbox that is prepared for a later launch; ID.new is not ready yet
//	checkpoints/NAME/checkpoint.json, image/   a checkpoint; .new-* is being made or removed
//	snapshots/NAME/snapshot.json, fs/          likewise a snapshot
//
// A sandbox runs if its lock is held. Process ids are no proof. Files are replaced by rename, so a reader sees the
// complete old file or the complete new one.
//
// Each JSON file is sealed: it holds a generation, a checksum and the content. Its copy NAME.copy is written after the
// file was verified. The copy replaces a lost or damaged file. Each directory of data (fs/N, image of a checkpoint, fs
// of a snapshot) is sealed, too: sums.json lists its files with sizes and checksums. A sandbox starts from a directory
// only after they were compared. A file without a usable copy never counts as a file that was not written. Messages
// name it, and nothing is removed because of it.
//
// It imports core. Start with Store in store.go.
package store

// IDPrefix is the prefix of local sandboxes' ids.
const IDPrefix = "loc-"
