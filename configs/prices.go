package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
)

// modalPrices are Modal's prices for sandboxes: reserved cores and memory cost three times those of functions. Public
// pages that quote Modal's page were read on the named date. Plans change the prices.
//
// A sandbox without a CPU limit may use 16 cores more than it reserves, and pays for its use
// (modal.com/docs/guide/resources). Modal's pages name factors for regions from 1.25 to 2.5
// (modal.com/docs/guide/region-selection); region is the largest.
const modalPrices = "currency=USD date=2026-07-01 source=https://modal.com/pricing " +
	"cpu=0.00003942 memory=0.00000672 min_cpu=0.125 min_memory=128MiB burst_cpu=16 region=2.5 " +
	"gpu.T4=0.000164 gpu.L4=0.000222 gpu.A10=0.000306 gpu.A10G=0.000306 gpu.L40S=0.000542 " +
	"gpu.A100=0.000583 gpu.A100-40GB=0.000583 gpu.A100-80GB=0.000694 gpu.RTX-PRO-6000=0.000842 " +
	"gpu.H100=0.001097 gpu.H100!=0.001097 gpu.H200=0.001261 gpu.B200=0.001736 gpu.B200+=0.001736"

// prices returns the setting of a provider's price table: words KEY=VALUE. Amounts are per second, for one core, one
// GiB, or one GPU of a type.
func prices(provider, fallback, doc string) key {
	k := key{name: "prices." + provider, kind: kindPrices, fallback: fallback, doc: doc}
	k.get = func(c Config) string { return c.Prices[provider].text }
	k.set = func(c *Config, s string) error {
		table, err := parsePrices(s)
		if err != nil {
			return err
		}
		if c.Prices == nil {
			c.Prices = map[string]priceTable{}
		}
		c.Prices[provider] = priceTable{s, table}
		return nil
	}
	return k
}

// priceTable is a table as text and parsed; nil is no table.
type priceTable struct {
	text string
	*price.Table
}

// parsePrices parses a price table. It returns nil for no words and for the word none.
func parsePrices(text string) (*price.Table, error) {
	words := strings.Fields(text)
	if len(words) == 0 || text == "none" {
		return nil, nil //nolint:nilnil // no table is a valid result
	}
	p := &price.Table{GPU: map[string]float64{}}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q: expected KEY=VALUE", word)
		}
		var err error
		gpu, isGPU := strings.CutPrefix(name, "gpu.")
		switch {
		case isGPU && gpu != "":
			p.GPU[strings.ToUpper(gpu)], err = amount(value)
		case name == "currency":
			p.Currency = value
		case name == "date":
			p.Date = value
			_, err = time.Parse(time.DateOnly, value)
		case name == "source":
			p.Source = value
		case name == "cpu":
			p.CPU, err = amount(value)
		case name == "memory":
			p.Memory, err = amount(value)
		case name == "min_cpu":
			p.MinCPU, err = amount(value)
		case name == "burst_cpu":
			p.BurstCPU, err = amount(value)
		case name == "region":
			p.Region, err = amount(value)
		case name == "min_memory":
			p.MinMemory, err = core.ParseBytes(value)
		default:
			return nil, fmt.Errorf("unknown key %q; the keys are currency, date, source, cpu, memory, min_cpu, min_memory, "+
				"burst_cpu, region and gpu.TYPE", name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: invalid value %q", name, value)
		}
	}
	if p.Currency == "" || p.Date == "" {
		return nil, fmt.Errorf("currency and date are missing")
	}
	return p, nil
}

// amount parses a price, from 0 up.
func amount(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && (n < 0 || math.IsNaN(n) || math.IsInf(n, 0)) {
		err = strconv.ErrRange
	}
	return n, err
}

// PriceTables returns the prices as the service takes them.
func (c Config) PriceTables() map[string]price.Table {
	tables := map[string]price.Table{}
	for provider, table := range c.Prices {
		if table.Table != nil {
			tables[provider] = *table.Table
		}
	}
	return tables
}
