// Package seal encodes values as JSON with a checksum, so that a reader detects changes by disk faults. It imports the
// standard library only, and every package may import it. Start with Marshal.
package seal
