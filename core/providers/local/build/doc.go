// Package build builds images for local sandboxes from Dockerfiles. Each step that runs a command is a sandbox, and its
// writable layer is the layer of the step. Layers are cached by their step, and the image's file is made once, at the
// end. Start with Builder.Build in build.go.
//
// It imports core, the packages of images, and BuildKit's parser. Its Runner starts the sandboxes.
package build
