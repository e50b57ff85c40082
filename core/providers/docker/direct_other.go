//go:build !linux

package docker

import (
	"context"
	"errors"
)

// direct is for Linux only: elsewhere the engine runs in a virtual machine.
func (e containers) direct(context.Context, known) (line, error) { return nil, errors.ErrUnsupported }
