// Package keys keeps the API keys of a server: hashed, with owner, scope and expiry, in one private file.
//
// It imports core and a file lock. Start with Open in keys.go.
package keys
