// Package clitest holds an App for tests.
// Only tests import it.
// Start with New.
package clitest
