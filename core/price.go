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

// costOf returns what a sandbox has cost until now, or nil where its provider has no prices.
func (s *Service) costOf(sb Sandbox) *Cost {
	prices, priced := s.prices[sb.Provider]
	if !priced {
		return nil
	}
	rate, err := prices.Rate(sb.Spec)
	if err != nil {
		return nil
	}
	cost := &Cost{Currency: prices.Currency}
	if sb.State.Live() {
		cost.PerHour = rate * time.Hour.Seconds()
	}
	cost.Amount = rate * s.lived(sb).Seconds()
	return cost
}

// lived returns for how long a sandbox has been charged. One that is queued has cost nothing yet.
func (s *Service) lived(sb Sandbox) time.Duration {
	if sb.State == StateQueued {
		return 0
	}
	end := sb.Ended
	if sb.State.Live() {
		end = s.now()
	}
	begin := sb.Started
	if begin.IsZero() {
		begin = sb.Created
	}
	return max(end.Sub(begin), 0)
}

// gpuLifetime is how long a sandbox with a GPU lives that costs money and has no lifetime of its own.
const gpuLifetime = Duration(time.Hour)

// boundGPU shortens the default lifetime of a sandbox with a GPU where GPUs have a price. It reports whether it did.
func (s *Service) boundGPU(spec *Spec, asked Duration) bool {
	prices, priced := s.prices[spec.Provider]
	if !priced || spec.GPU.IsZero() || len(prices.GPU) == 0 || asked != 0 || spec.Checkpoint != "" {
		return false
	}
	if spec.Timeout != 0 && spec.Timeout <= gpuLifetime {
		return false
	}
	spec.Timeout = gpuLifetime
	return true
}

// budget bounds the lifetime of a launch by what it may cost. asked is the lifetime that was asked for, or 0.
func (s *Service) budget(spec *Spec, provider string, asked Duration) error {
	if err := s.knowsPrices(*spec, provider); err != nil {
		return err
	}
	longest, bounded, err := s.affordable(*spec, provider, 0)
	if err != nil || !bounded {
		return err
	}
	if asked == NoTimeout || asked > longest {
		return Errorf(KindExhausted, "launch", "", "a lifetime of %s at %s costs more than %v %s, which lasts %s",
			asked, provider, spec.MaxCost, s.prices[provider].Currency, longest).WithHint("ask for --timeout %s, or allow more with --max-cost", longest)
	}
	if spec.Timeout <= 0 || spec.Timeout > longest {
		spec.Timeout = longest
	}
	return nil
}

// knowsPrices refuses to bound what is not known: what somebody else's machines cost. One of ours costs nothing where no prices say so.
func (s *Service) knowsPrices(spec Spec, provider string) error {
	if _, priced := s.prices[provider]; spec.MaxCost == 0 || priced {
		return nil
	}
	caps, err := s.Capabilities(provider)
	if err != nil || !caps.Remote {
		return err
	}
	return Errorf(KindUsage, "launch", "", "what a sandbox at %s costs is not known, so --max-cost bounds nothing", provider).
		WithHint("sb config get prices.%s, or bound it with --timeout", provider)
}

// affordable returns how long a sandbox can live on what is left of its MaxCost if it costs the most that it can, in whole seconds. Where nothing is
// charged, or nothing bounds it, bounded is false.
func (s *Service) affordable(spec Spec, provider string, lived time.Duration) (longest Duration, bounded bool, err error) {
	prices, priced := s.prices[provider]
	if spec.MaxCost == 0 || !priced {
		return 0, false, nil
	}
	rate, err := prices.MostRate(spec)
	if err != nil || rate == 0 {
		return 0, false, err
	}
	seconds := min(spec.MaxCost/rate-lived.Seconds(), maxLifetime.Seconds())
	if seconds < 1 {
		return 0, true, Errorf(KindExhausted, "cost", "", "%v %s is used up in less than a second", spec.MaxCost, prices.Currency).
			WithHint("allow more with --max-cost, or ask for less")
	}
	return Duration(time.Duration(seconds) * time.Second), true, nil
}

// checkBudget refuses a lifetime from now on that costs more than the sandbox may.
func (s *Service) checkBudget(sb Sandbox, timeout time.Duration) error {
	longest, bounded, err := s.affordable(sb.Spec, sb.Provider, s.lived(sb))
	if err != nil || !bounded {
		return err
	}
	if timeout == 0 || timeout > time.Duration(longest) {
		return Errorf(KindExhausted, "timeout", sb.Name, "it may cost %v %s, which lasts %s from now", sb.Spec.MaxCost, s.prices[sb.Provider].Currency, longest)
	}
	return nil
}

// gpuPrices says what the GPUs of a provider cost, for Capabilities.
func (p Prices) gpuPrices() map[string]string {
	told := map[string]string{}
	for name, price := range p.GPU {
		told[name] = fmt.Sprintf("%.2f %s/h", price*time.Hour.Seconds(), cmp.Or(p.Currency, "?"))
	}
	return told
}
