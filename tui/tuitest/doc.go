// Package tuitest runs a program on a terminal of its own, as a person does: it presses keys
// and reads the screen. Stories of the dashboard and the README's pictures are made with it.
package tuitest
