//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// fileContent returns the content of a file with a generation and a checksum.
func fileContent(generation, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(generation), uint64(size))) //nolint:gosec // any bytes will do
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "generation %d\n", generation)
	for range size / 8 {
		_, _ = fmt.Fprintf(&b, "%08x", r.Uint32())
	}
	sum := sha256.Sum256(b.Bytes())
	b.WriteString("\n" + hex.EncodeToString(sum[:]) + "\n")
	return b.Bytes()
}

// fileGeneration checks a file and returns its generation, or 0 if there is no file.
func fileGeneration(content []byte) (int, error) {
	if len(content) == 0 {
		return 0, nil
	}
	const tail = 2*sha256.Size + 2
	var generation int
	if _, err := fmt.Sscanf(string(content[:min(len(content), 64)]), "generation %d\n", &generation); err != nil ||
		len(content) < tail {
		return 0, fmt.Errorf("the file of %d bytes is not one that was written: %.40q", len(content), content)
	}
	body, sum := content[:len(content)-tail], content[len(content)-tail+1:len(content)-1]
	if got := sha256.Sum256(body); hex.EncodeToString(got[:]) != string(sum) {
		return 0, fmt.Errorf("the file of generation %d is damaged: %d bytes", generation, len(content))
	}
	return generation, nil
}
