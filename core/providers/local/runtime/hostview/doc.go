// Package hostview is the file server of a sandbox's view of this machine. It runs in gVisor's gofer, in the place of
// gVisor's own server, which would show whatever the gofer may read: the gofer is root or the user who launches.
//
// It shows what any user of the machine could read. A file that others may not read does not exist. A directory that
// others may not enter or list is empty. A mount below a shown directory does not exist either, unless it is named.
// The view's own file system (in memory, see engine) is shown as it is.
//
// The view is read-only: what a sandbox writes is in a layer of its own kernel's.
//
// It imports gVisor only. Start with hostview.go.
package hostview
