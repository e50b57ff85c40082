// Package cli holds the parts that all commands share: the App with its dependencies, arguments, flags, completion,
// streams, signals, exit codes. It imports core/service, configs and core/providers, and no group of commands. Start
// with App in app.go.
package cli
