// Package programtest builds sb's programs for tests that start them. It imports the standard library only. Start with
// With, for TestMain.
package programtest
