// Package guesttext makes text that comes from sandboxes safe for a terminal. What stays
// are printable characters and colours; everything else that a terminal would obey is
// removed: cursor moves, titles, clipboard and mode changes, other character sets, queries.
package guesttext
