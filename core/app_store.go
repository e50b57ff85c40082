package core

import (
	"context"
	"time"
)

// AppInfo is an app: a group of sandboxes with a name.
type AppInfo struct {
	Name     string `json:"name"`
	ID       string `json:"id,omitempty"`
	Provider string `json:"provider"`
	// State is in the provider's words; "" where an app is only a label of its sandboxes.
	State   string    `json:"state,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Sandboxes counts those that live.
	Sandboxes int `json:"sandboxes"`
}

// AppStore knows apps as things of their own. Its capability is CapAppStore; elsewhere an app is a label of its sandboxes.
type AppStore interface {
	// Apps returns those that are not stopped, in no order. Sandboxes is left 0.
	Apps(ctx context.Context) ([]AppInfo, error)
	// StopApp ends an app with everything that runs in it.
	StopApp(ctx context.Context, name string) error
}
