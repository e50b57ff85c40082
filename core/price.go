package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Prices is what a provider charges for what a sandbox reserves, per second.
type Prices struct {
	// Currency is the ISO 4217 code: "USD".
	Currency string `json:"currency"`
	// Date is the day of which the prices are, Source where they were read.
	Date   string `json:"date"`
	Source string `json:"source"`
	// CPU is for one core, Memory for one GiB, GPU for one of a type.
	CPU    float64            `json:"cpu"`
	Memory float64            `json:"memory"`
	GPU    map[string]float64 `json:"gpu,omitempty"`
	// MinCPU and MinMemory are what is charged at least.
	MinCPU    float64 `json:"min_cpu,omitempty"`
	MinMemory Bytes   `json:"min_memory,omitempty"`
	// BurstCPU is how many cores a sandbox without a cpu limit may use and pay beyond MinCPU; 0 is not known.
	BurstCPU float64 `json:"burst_cpu,omitempty"`
	// Region is the largest factor on all prices of a sandbox that names regions; 0 is not known.
	Region float64 `json:"region,omitempty"`
}

// Rate returns what a sandbox of this spec costs a second at least: what it uses beyond what it reserves is not
// known beforehand. KindUnsupported: the GPU has no price.
func (p Prices) Rate(spec Spec) (float64, error) {
	return p.rate(max(spec.CPU, p.MinCPU), max(spec.Memory, p.MinMemory), spec.GPU)
}

// MostRate returns what a sandbox of this spec costs a second at most: what it uses up to its limits is charged beyond what it reserves,
// and regions multiply all prices. KindUsage: the spec leaves open what bounds the cost. KindUnsupported: a price is not known.
func (p Prices) MostRate(spec Spec) (float64, error) {
	cpu, memory := max(spec.CPU, p.MinCPU), max(spec.Memory, p.MinMemory)
	only := ModalSpec{}
	if spec.Modal != nil {
		only = *spec.Modal
	}
	unbounded := func(what, flag string) error {
		return Errorf(KindUsage, "cost", "", "without a limit of its %s the sandbox has no largest cost", what).WithHint("set one: %s", flag)
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
		return 0, Errorf(KindUnsupported, "cost", strings.Join(only.Regions, ","), "the price in regions is not known").
			WithHint("leave the regions out, or add the largest factor to the provider's prices (region=2.5): sb config get prices.modal")
	}
	return rate * p.Region, nil
}

// rate is what cores, memory and GPUs cost a second.
func (p Prices) rate(cpu float64, memory Bytes, gpu GPU) (float64, error) {
	rate := cpu*p.CPU + float64(memory)/float64(GiB)*p.Memory
	if gpu.IsZero() {
		return rate, nil
	}
	price, known := p.GPU[gpu.Type]
	if !known {
		return 0, Errorf(KindUnsupported, "cost", gpu.Type, "the price of a %s is not known", gpu.Type).
			WithHint("add it to the provider's prices: sb config get prices.modal")
	}
	return rate + price*float64(gpu.Count), nil
}

// Cost is what a sandbox has cost until now, at least.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	// PerHour is what another hour costs; 0 of a dead sandbox.
	PerHour float64 `json:"per_hour"`
}

// String returns the amount to the cent, or more exactly below one: "1.25 USD".
func (c Cost) String() string {
	if c.Amount != 0 && c.Amount < 0.01 {
		return fmt.Sprintf("%.4f %s", c.Amount, c.Currency)
	}
	return fmt.Sprintf("%.2f %s", c.Amount, c.Currency)
}

// GPUPrices says what the GPUs of a provider cost, for Capabilities.
func (p Prices) GPUPrices() map[string]string {
	told := map[string]string{}
	for name, price := range p.GPU {
		told[name] = fmt.Sprintf("%.2f %s/h", price*time.Hour.Seconds(), cmp.Or(p.Currency, "?"))
	}
	return told
}
