// Package atomicfile replaces files atomically. Readers see the complete old or new content, also after a writer was
// killed. It imports the standard library only, and every package may import it. Start with Write.
//
// Two packages replace files without it. The tests of core/providers/local/store kill the writer between two changes of
// the disk. core/agent/inside replaces files through descriptors, because the guest is hostile.
package atomicfile
