// Package problem writes errors as responses of RFC 9457, for the routes below /api/v1/.
//
// It may import core. Start with problem.go.
package problem
