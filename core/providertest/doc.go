// Package providertest is the contract of core.Provider as tests: every provider runs Run. A feature that a provider
// does not report must be absent; no test is skipped. Commands in the suite are POSIX: sh, cat, sleep, head, printf.
//
// It imports core; only tests import it. Start with Run in suite.go.
package providertest
