// Package image provides the images of containers. It pulls them with the credentials of docker login, and builds
// Dockerfiles and packages. Of a sandbox, it uses only the spec.
//
// It imports core, package engine, Docker's client, docker/cli's configuration and BuildKit's parser; package docker
// imports it. Start with Store.Get in image.go.
package image
