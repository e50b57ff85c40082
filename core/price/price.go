package price

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Table has a provider's prices for reserved resources, per second.
type Table struct {
	// Currency is the ISO 4217 code: "USD".
	Currency string `json:"currency"`
	// Date is the day of the prices, Source where they were published.
	Date   string `json:"date"`
	Source string `json:"source"`
	// CPU is the price of one core, Memory of one GiB, GPU of one of each type.
	CPU    float64            `json:"cpu"`
	Memory float64            `json:"memory"`
	GPU    map[string]float64 `json:"gpu,omitempty"`
	// MinCPU and MinMemory are the smallest billed amounts.
	MinCPU    float64    `json:"min_cpu,omitempty"`
	MinMemory core.Bytes `json:"min_memory,omitempty"`
	// BurstCPU is the number of cores beyond MinCPU that a sandbox without a CPU limit may use and pay for; 0 means
	// unknown.
	BurstCPU float64 `json:"burst_cpu,omitempty"`
	// Region is the highest factor on the prices of a sandbox with regions; 0 means unknown.
	Region float64 `json:"region,omitempty"`
}

// Rate returns the lowest cost of a sandbox with this spec, per second. Use beyond the reservation is not included,
// because it is unknown in advance. KindUnsupported: the GPU has no price.
func (p Table) Rate(spec core.Spec) (float64, error) {
	return p.rate(max(spec.CPU, p.MinCPU), max(spec.Memory, p.MinMemory), spec.GPU)
}

// MostRate returns the highest cost of a sandbox with this spec, per second: use up to its limits, multiplied by the
// region factor. KindUsage: the spec has no limit that bounds the cost. KindUnsupported: a price is unknown.
func (p Table) MostRate(spec core.Spec) (float64, error) {
	cpu, memory := max(spec.CPU, p.MinCPU), max(spec.Memory, p.MinMemory)
	only, err := boundsOf(spec)
	if err != nil {
		return 0, err
	}
	unbounded := func(what, flag string) error {
		return core.Errorf(core.KindUsage, "cost", "", "the sandbox has no largest cost without a limit of %s", what).
			WithHint("set one: %s", flag)
	}
	switch {
	case spec.CPU > 0:
		cpu = max(cpu, only.CPULimit)
	case p.MinCPU > 0 && p.BurstCPU == 0:
		return 0, unbounded("cpu", "--cpu 1")
	default:
		cpu += p.BurstCPU
	}
	switch {
	case spec.Memory > 0:
		memory = max(memory, only.MemoryLimit)
	case p.MinMemory > 0:
		return 0, unbounded("memory", "--memory 2GiB")
	}
	rate, err := p.rate(cpu, memory, spec.GPU)
	if err != nil || len(only.Regions) == 0 {
		return rate, err
	}
	if p.Region == 0 {
		return 0, core.Errorf(
			core.KindUnsupported, "cost", strings.Join(only.Regions, ","), "the price of the regions is unknown",
		).
			WithHint(
				"leave the regions out, or add the largest factor to the provider's prices (region=2.5): sb config get " +
					"prices.modal",
			)
	}
	return rate * p.Region, nil
}

// bounds are the settings in a provider's own section of a spec that change the highest cost. A provider whose section
// has such settings gives them these names.
type bounds struct {
	CPULimit    float64    `json:"cpu_limit"`
	MemoryLimit core.Bytes `json:"memory_limit"`
	Regions     []string   `json:"regions"`
}

func boundsOf(spec core.Spec) (b bounds, err error) {
	if spec.Modal != nil {
		if err := json.Unmarshal(spec.Modal, &b); err != nil {
			return bounds{}, core.Invalid("modal", "%v", err)
		}
	}
	return b, nil
}

// rate returns the cost of cores, memory and GPUs, per second.
func (p Table) rate(cpu float64, memory core.Bytes, gpu core.GPU) (float64, error) {
	rate := cpu*p.CPU + float64(memory)/float64(core.GiB)*p.Memory
	if gpu.IsZero() {
		return rate, nil
	}
	price, known := p.GPU[gpu.Type]
	if !known {
		return 0, core.Errorf(core.KindUnsupported, "cost", gpu.Type, "the price of a %s is unknown", gpu.Type).
			WithHint("add it to the provider's prices: sb config get prices.modal")
	}
	return rate + price*float64(gpu.Count), nil
}

// GPUPrices returns the GPU prices as text, for Capabilities.
func (p Table) GPUPrices() map[string]string {
	prices := map[string]string{}
	for name, price := range p.GPU {
		prices[name] = fmt.Sprintf("%.2f %s/h", price*time.Hour.Seconds(), cmp.Or(p.Currency, "?"))
	}
	return prices
}
