// Package format turns values into short text: durations, sizes, counts and command lines of a shell.
//
// It may import only core and the standard library. Start reading at words.go; LaunchLine writes a spec as a command.
package format
