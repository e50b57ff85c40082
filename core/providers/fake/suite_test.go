package fake_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Setenv("SB_SUITE_SECRET", "the host's")
	p := fake.New(fake.Options{})
	t.Cleanup(p.Shutdown)
	providertest.Run(t, func(testing.TB) core.Provider { return p })
}

func TestContractDiff(t *testing.T) {
	p := fake.New(fake.Options{})
	t.Cleanup(p.Shutdown)
	providertest.RunDiff(t, func(testing.TB) core.Provider { return p })
}

func TestKeeperContract(t *testing.T) {
	t.Setenv("SB_SUITE_SECRET", "the host's")
	k := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	t.Cleanup(k.Shutdown)
	providertest.Run(t, func(testing.TB) core.Provider { return k })
}

func BenchmarkContract(b *testing.B) {
	p := fake.New(fake.Options{})
	b.Cleanup(p.Shutdown)
	providertest.Bench(b, func(testing.TB) core.Provider { return p })
}
