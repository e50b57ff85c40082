// Package dockertest has what tests with a real engine need: a small image that comes from no registry.
//
// It imports the Docker client; only tests import it. Start with image.go.
package dockertest
