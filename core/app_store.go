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
	// State is the provider's own name for the state; "" where an app is only a label of its sandboxes.
	State   string    `json:"state,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Sandboxes counts the live ones.
	Sandboxes int `json:"sandboxes"`
}

// AppStore manages apps as separate objects. Its capability is CapAppStore. Without it, an app is a label of its
// sandboxes.
type AppStore interface {
	// Apps returns the apps that are not stopped, in no order. It leaves Sandboxes 0.
	Apps(ctx context.Context) ([]AppInfo, error)
	// StopApp ends an app and its sandboxes.
	StopApp(ctx context.Context, name string) error
}
