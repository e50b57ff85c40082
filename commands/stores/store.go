package stores

import (
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// SizesOf collects the sizes of an inventory. After a failure it returns none.
func SizesOf[T any](
	found service.Inventory[T], err error, of func(T) (name string, size core.Bytes),
) map[string]core.Bytes {
	sizes := map[string]core.Bytes{}
	if err == nil {
		for _, item := range found.Items {
			name, size := of(item)
			sizes[name] = size
		}
	}
	return sizes
}
