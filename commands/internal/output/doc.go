// Package output writes the results of commands: tables for people, JSON for programs.
//
// It imports core and a table library, and no command. Start with Table and with JSON.
package output
