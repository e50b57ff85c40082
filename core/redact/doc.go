// Package redact replaces the values of secrets in the output of sandboxes. It imports core only. Start with Redactor.
package redact
