// Package dockertest has a small image for tests with a real engine. It comes from no registry.
//
// It imports the Docker client; only tests import it. Start with image.go.
package dockertest
