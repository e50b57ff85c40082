// Package providers lists the providers that sb is built with.
//
// It imports every provider, and no other package may do that. Start with Builtin.
package providers
