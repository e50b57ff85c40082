// Package transfer copies files between this machine and sandboxes, and from one
// sandbox to another, by the rules of cp -r:
//
//   - A directory is copied under its own name into a target that is an existing
//     directory; a target that does not exist becomes the copy.
//   - "dir/" and "dir/." mean the directory's content, which goes into the target.
//   - A file goes into a target that is a directory or ends in "/"; else the
//     target is the copy.
//
// Permissions, times, symbolic and hard links and holes are kept. A symbolic link is copied as a link, wherever it
// leads, and no copy writes through one. Result.Warnings lists everything that cannot be kept. Every file appears whole
// or not at all, and a failed transfer leaves no partial tree.
//
// A sandbox is hostile. The names of copies come from the request. A sandbox's answers supply only the names below a
// copied directory. These are used only below the target, through os.Root.
//
// Find and Search look for files and lines in a sandbox, by the same rules for what it answers.
//
// It imports core and a matcher of .gitignore patterns. Start with Copy in transfer.go.
package transfer
