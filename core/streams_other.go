//go:build !unix

package core

import (
	"errors"
	"os"
)

// duplicate is not possible on this system, so the caller's file is used.
func duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
