package mcp

import (
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// A file that is read whole has a known size, so the sandbox is asked once and not twice.
func TestReadOfASmallFileAsksOnce(t *testing.T) {
	provider := fileWatcher{fake.New(fake.Options{}), make(chan string), make(chan []core.FileEvent), &atomic.Int64{}}
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{{
		Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return provider, nil },
	}}})
	a := benchOver(t, provider.Provider, svc, setup.Options{}).connect(t)
	sb := a.Launch(args{"secrets": args{"KEY": "hidden-value"}})
	content := strings.Repeat("a line\n", 8000)
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/f", "content": content})
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/small", "content": "one\ntwo\n"})
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/secret", "content": "is hidden-value\n"})
	for _, x := range []struct {
		path  string
		more  args
		size  float64
		stats int64
	}{
		{"/tmp/small", nil, 8, 0},
		{"/tmp/small", args{"offset": 4}, 8, 0},
		{"/tmp/small", args{"line": 1}, 8, 0},
		{"/tmp/f", nil, 56000, 1},
		{"/tmp/f", args{"line": 10}, 56000, 1},
		{"/tmp/secret", nil, 16, 1},
	} {
		before := provider.stats.Load()
		given := args{"sandbox": sb, "path": x.path}
		maps.Copy(given, x.more)
		got := a.Call("file_read", given)
		if got["size"] != x.size || provider.stats.Load()-before != x.stats {
			t.Errorf("%v: size %v, %d questions", given, got["size"], provider.stats.Load()-before)
		}
	}
}
