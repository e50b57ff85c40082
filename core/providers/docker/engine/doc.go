// Package engine finds a container engine, connects to it and reads its features. It is independent of sandboxes.
//
// It imports core, Docker's client and docker/cli's configuration; package docker and package image import it.
// Start with Search in search.go: it lists the places where an engine may be and connects to the first that answers.
package engine
