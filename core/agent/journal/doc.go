// Package journal keeps the commands of a sandbox on disk. Each has one JSON file with its description and its end, and
// output as records in files of bounded size. The supervisor writes. Every process of the same user can read, even
// after the supervisor has ended.
//
// Output is a sequence of records: time (8 bytes, Unix nanoseconds), stream (1 byte), length (4 bytes), a CRC-32C of
// these, then as many bytes as the length, and a CRC-32C of them. All numbers are big endian. A record that is cut
// short is the end.
//
// In a container, root can write to the journal, so its entries are signed.
//
// It imports core, core/redact, internal/atomicfile and internal/seal. Start with Create in journal.go for the writer,
// and with reader.go.
package journal
