//go:build linux

package box

import "github.com/seed-0724f904/sb/core/providers/docker/wire"

func raiseFence(wire.Fence) error { return nil }
