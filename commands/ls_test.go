package commands

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/sandboxes"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// A terminal shows the first sandboxes before a slow provider has answered. Elsewhere one complete table is printed.
func TestLsShowsFastProvidersFirst(t *testing.T) {
	for name, tables := range map[string]int{"terminal": 2, "pipe": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near := fake.New(fake.Options{Name: "near", IDPrefix: "nea-"})
				far := fake.New(fake.Options{Name: "far", IDPrefix: "far-"})
				defer near.Shutdown()
				defer far.Shutdown()
				svc := service.New(service.Options{Actor: "test", Factories: []core.Factory{near.Factory(), far.Factory()}})
				defer func() { _ = svc.Close() }()
				for _, provider := range []string{"far", "near"} {
					if _, err := svc.Sandboxes.Launch(t.Context(), core.Spec{Provider: provider, Name: "at-" +
						provider}, service.LaunchOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				far.Inject(fake.OpList, fake.Fault{Delay: 2 * sandboxes.Soon})
				app, streams := clitest.New(t, nil)
				app.Service = func() (*service.Service, error) { return svc, nil }
				if name == "terminal" {
					streams.SetTTY(120)
				}
				begin := time.Now()
				if code := execute(t.Context(), app, []string{"ls"}); code != 0 {
					t.Fatalf("it ends with %d: %s", code, streams.Err)
				}
				got := streams.Out.String()
				if strings.Count(got, "PROVIDER") != tables || !strings.Contains(got, "at-near") ||
					!strings.Contains(got, "at-far") {
					t.Errorf("after %s:\n%s", time.Since(begin), got)
				}
			})
		})
	}
}
