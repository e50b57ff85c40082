package configs

import (
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestParsePrices(t *testing.T) {
	p, err := parsePrices(modalPrices)
	if err != nil {
		t.Fatal(err)
	}
	if p.Currency != "USD" || p.Date == "" || p.Source == "" || p.MinMemory != 128*core.MiB || p.GPU["H100"] != 0.001097 {
		t.Errorf("%+v", p)
	}
	if none, err := parsePrices("  "); none != nil || err != nil {
		t.Errorf("no words are %+v, %v", none, err)
	}
	for _, bad := range []string{
		"cpu", "cpu=", "currency=USD", "currency=USD date=soon", "currency=USD date=2026-01-02 cpu=-1",
		"currency=USD date=2026-01-02 cpu=NaN", "currency=USD date=2026-01-02 disk=1",
		"currency=USD date=2026-01-02 gpu.=1",
	} {
		if p, err := parsePrices(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

// Modal's prices need no configuration; the word none removes them.
func TestPriceTables(t *testing.T) {
	loaded, err := Load(write4test(t, "prices:\n  docker: currency=EUR date=2026-01-02 cpu=0.00001\n"), lookup(nil))
	if err != nil {
		t.Fatal(err)
	}
	tables := loaded.PriceTables()
	if len(tables) != 2 || tables["docker"].Currency != "EUR" || tables["modal"].CPU == 0 {
		t.Errorf("%+v", tables)
	}
	loaded, err = Load(write4test(t, "prices: {modal: none}\n"), lookup(nil))
	if err != nil || len(loaded.PriceTables()) != 0 {
		t.Errorf("%+v, %v", loaded.PriceTables(), err)
	}
}
