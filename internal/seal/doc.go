// Package seal encodes values as JSON with a checksum, so that a reader finds what a fault of a disk has changed. It
// imports the standard library only, and every package may import it. Start with Marshal.
package seal
