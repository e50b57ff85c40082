// Package image keeps the images that local sandboxes start from: it fetches them from registries and files, and
// flattens each into one read-only EROFS file. It knows nothing of sandboxes. Start with Store.Pull in store.go.
//
// It imports core and a library for registries.
package image
