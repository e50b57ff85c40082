// Package reply makes content fit into a reply: it clips output, scales pictures and detects file types.
//
// It may import core.
//
// Start reading at budget.go: Clip renders the content of a Capture.
package reply
