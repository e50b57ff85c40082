// Package reply makes content fit into a reply: output in a budget of characters, pictures scaled down, types of files.
//
// It may import core.
//
// Start reading at budget.go: Clip renders what a Capture kept of a stream.
package reply
