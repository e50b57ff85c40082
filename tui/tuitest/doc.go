// Package tuitest runs a program on its own pseudo-terminal, presses keys and reads the screen. The dashboard's
// stories and the pictures in the docs use it.
//
// It may import no other package of this module. Start reading at Terminal.
package tuitest
