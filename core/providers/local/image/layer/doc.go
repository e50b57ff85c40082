// Package layer applies the layers of an image, one after the other, to a tree in memory: the rules of
// https://github.com/opencontainers/image-spec/blob/main/layer.md. The content of files goes into the image file at
// once. Nothing is unpacked into the host's file system, so no name in a layer can lead there. Every byte of a layer is
// foreign input, so Limits bound its use of memory, disk and time.
//
// Extended attributes, including file capabilities, are left out: gVisor cannot read them from an EROFS file.
// Tree.Extended names the files that had some.
//
// It imports core, package erofs and the library that decompresses. Start with Tree.Apply in tree.go.
package layer
