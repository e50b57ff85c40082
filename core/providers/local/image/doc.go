// Package image stores the images for local sandboxes. It reads them from registries and files, and flattens each into
// one read-only EROFS file. It is independent of sandboxes. Start with Store.Pull in pull.go.
//
// It imports core, core/providers/local/store and a library for registries.
package image
