// Package screen measures, cuts and joins text in the cells of a terminal.
//
// It may import only charmbracelet/x/ansi and the standard library. Start reading at Width.
package screen
