package core

// PruneReport lists the objects that Prune removed or, in a dry run, would remove.
type PruneReport struct {
	DryRun    bool       `json:"dry_run"`
	Sandboxes []Sandbox  `json:"sandboxes"`
	Leftovers []Leftover `json:"leftovers"`
	// Others counts the sandboxes that Prune kept because they belong to another owner.
	Others int `json:"others,omitempty"`
	// Checkpoints is set if checkpoints were requested.
	Checkpoints []Checkpoint      `json:"checkpoints,omitempty"`
	Failures    []ProviderFailure `json:"failures,omitempty"`
}
