// Package price computes what sandboxes cost by a provider's prices. It imports core only. Start with Table.
package price
