// Package hostfd answers the file requests of a sandbox's kernel from open descriptors of the host. Both file servers
// of the gofer use it: hostview and hostdir.
//
// It imports gVisor only. Start with hostfd.go.
package hostfd
