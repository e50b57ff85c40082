// Package erofs writes a file system of the EROFS format into one file: https://docs.kernel.org/filesystems/erofs.html.
// It uses only those parts of the format that gVisor reads: no compression, no extended attributes, and no regular file
// inside its inode, because gVisor cannot map such a file into memory. Hard links share an inode. Blocks of zeros use
// no disk space.
//
// It reads only files that it wrote itself. It imports the standard library and golang.org/x/sys. Start with Create in
// writer.go.
package erofs
