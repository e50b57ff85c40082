// Package providertest is the contract of core.Provider as tests: every provider runs Run. Features that a provider
// does not claim must be absent; nothing is skipped. Commands in the suite are POSIX: sh, cat, sleep, head, printf.
//
// It imports core; only tests import it. Start with Run in suite.go.
package providertest
