package core

import (
	"cmp"
	"fmt"
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
}

// Rate returns what a sandbox of this spec costs a second at least: what it uses beyond what it reserves is not
// known beforehand. KindUnsupported: the GPU has no price.
func (p Prices) Rate(spec Spec) (float64, error) {
	rate := max(spec.CPU, p.MinCPU)*p.CPU + float64(max(spec.Memory, p.MinMemory))/float64(GiB)*p.Memory
	if spec.GPU.IsZero() {
		return rate, nil
	}
	price, known := p.GPU[spec.GPU.Type]
	if !known {
		return 0, Errorf(KindUnsupported, "cost", spec.GPU.Type, "the price of a %s is not known", spec.GPU.Type).
			WithHint("add it to the provider's prices: sb config get prices.modal")
	}
	return rate + price*float64(spec.GPU.Count), nil
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
	end := sb.Ended
	if sb.State.Live() {
		end, cost.PerHour = s.now(), rate*time.Hour.Seconds()
	}
	begin := sb.Started
	if begin.IsZero() {
		begin = sb.Created
	}
	if end.After(begin) {
		cost.Amount = rate * end.Sub(begin).Seconds()
	}
	return cost
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

// affordable returns how long a sandbox can live on what is left of its MaxCost, in whole seconds. Where nothing is
// charged, or nothing bounds it, bounded is false.
func (s *Service) affordable(spec Spec, provider string, spent float64) (longest Duration, bounded bool, err error) {
	prices, priced := s.prices[provider]
	if spec.MaxCost == 0 || !priced {
		return 0, false, nil
	}
	rate, err := prices.Rate(spec)
	if err != nil || rate == 0 {
		return 0, false, err
	}
	seconds := min((spec.MaxCost-spent)/rate, maxLifetime.Seconds())
	if seconds < 1 {
		return 0, true, Errorf(KindExhausted, "cost", "", "%v %s is used up in less than a second", spec.MaxCost, prices.Currency).
			WithHint("allow more with --max-cost, or ask for less")
	}
	return Duration(time.Duration(seconds) * time.Second), true, nil
}

// checkBudget refuses a lifetime from now on that costs more than the sandbox may.
func (s *Service) checkBudget(sb Sandbox, timeout time.Duration) error {
	spent := 0.0
	if cost := s.costOf(sb); cost != nil {
		spent = cost.Amount
	}
	longest, bounded, err := s.affordable(sb.Spec, sb.Provider, spent)
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
