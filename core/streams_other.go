//go:build !unix

package core

import (
	"errors"
	"os"
)

// duplicate is not possible here; the caller's file will do.
func duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
