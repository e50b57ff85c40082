// Package image gets the images that containers start from: it pulls them with the credentials of docker login, and
// builds Dockerfiles and packages. It knows nothing of sandboxes but their spec.
//
// It imports core, package engine, Docker's client, docker/cli's configuration and BuildKit's parser; package docker
// imports it. Start with Store.Get in image.go.
package image
