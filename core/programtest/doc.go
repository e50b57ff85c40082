// Package programtest builds sb's programs for tests that start them, and finds those of npm. It imports the standard
// library only. Start with With, for TestMain.
package programtest
