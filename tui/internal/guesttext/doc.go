// Package guesttext makes text from sandboxes safe for a terminal. It keeps printable characters and colors, and
// removes all other control sequences: cursor moves, titles, clipboard, modes, character sets, queries.
//
// It may import only the standard library and charmbracelet/x/ansi. Start reading at Line for one line of text and
// at Splitter for a stream.
package guesttext
