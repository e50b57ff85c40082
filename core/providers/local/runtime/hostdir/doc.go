// Package hostdir is the file server of mounted host directories and volumes. It runs in gVisor's gofer, in place of
// gVisor's own server.
//
// On the host, every file that a sandbox makes belongs to the user who launched the sandbox, without setuid and setgid.
// The sandbox sees other owners: see Owner. That works with one mapped user, too, where chown to another user fails.
//
// It imports gVisor only. Start with hostdir.go.
package hostdir
