//go:build !linux

package docker

import (
	"context"
	"errors"
)

// direct is for Linux only: elsewhere the engine is in a machine of its own.
func (e containers) direct(context.Context, known) (line, error) { return nil, errors.ErrUnsupported }
