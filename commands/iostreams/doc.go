// Package iostreams holds a program's three streams and their properties: terminal or not, width and color.
//
// It imports core and golang.org/x/term. Start with Streams.
package iostreams
