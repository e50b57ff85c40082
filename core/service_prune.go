package core

// PruneReport says what Prune removed, or would.
type PruneReport struct {
	DryRun    bool       `json:"dry_run"`
	Sandboxes []Sandbox  `json:"sandboxes"`
	Leftovers []Leftover `json:"leftovers"`
	// Others counts the sandboxes that were left because they are another owner's.
	Others int `json:"others,omitempty"`
	// Checkpoints are there if they were asked for.
	Checkpoints []Checkpoint      `json:"checkpoints,omitempty"`
	Failures    []ProviderFailure `json:"failures,omitempty"`
}
