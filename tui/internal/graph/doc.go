// Package graph draws numbers with block characters.
//
// It may import only the standard library. Start reading at Area.
package graph
