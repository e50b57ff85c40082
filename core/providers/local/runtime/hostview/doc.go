// Package hostview is the file server of a sandbox's view of this machine. It runs in gVisor's gofer and replaces
// gVisor's server. That server would show all files that the gofer may read, and the gofer is root or the launching
// user.
//
// It shows files that all users of the machine can read. A file that others may not read does not exist. A directory
// that others may not enter or list is empty. A mount below a shown directory does not exist, either, unless it is
// listed. The view's own file system (in memory, see engine) is shown unchanged.
//
// In the mounts that the user chose to show, every file of the user is visible (see Annotations).
//
// The view is read-only: a sandbox writes to a layer of its kernel.
//
// It imports gVisor only. Start with hostview.go.
package hostview
