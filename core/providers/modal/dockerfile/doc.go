// Package dockerfile reads Dockerfiles with BuildKit's parser, for the provider and for modaltest.
//
// It imports BuildKit's parser only. Start with dockerfile.go.
package dockerfile
