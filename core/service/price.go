package service

import (
	"time"

	"github.com/seed-0724f904/sb/core"
)

// costOf returns the cost of a sandbox until now, or nil if its provider has no prices.
func (s *base) costOf(sb core.Sandbox) *core.Cost {
	prices, priced := s.prices[sb.Provider]
	if !priced {
		return nil
	}
	rate, err := prices.Rate(sb.Spec)
	if err != nil {
		return nil
	}
	cost := &core.Cost{Currency: prices.Currency}
	if sb.State.Live() {
		cost.PerHour = rate * time.Hour.Seconds()
	}
	cost.Amount = rate * s.chargedTime(sb).Seconds()
	return cost
}

// chargedTime returns the time for which a sandbox has been charged. A queued sandbox has cost nothing yet.
func (s *base) chargedTime(sb core.Sandbox) time.Duration {
	if sb.State == core.StateQueued {
		return 0
	}
	end := sb.Ended
	if sb.State.Live() {
		end = s.now()
	}
	return max(end.Sub(charged(sb)), 0)
}

// charged returns since when a sandbox is charged that is not queued.
func charged(sb core.Sandbox) time.Time {
	if sb.Started.IsZero() {
		return sb.Created
	}
	return sb.Started
}

// gpuLifetime is the default lifetime of a sandbox with a GPU that costs money.
const gpuLifetime = core.Duration(time.Hour)

// boundGPU shortens the default lifetime of a sandbox with a GPU where GPUs have a price. It reports whether it did.
func (s *base) boundGPU(spec *core.Spec, requested core.Duration) bool {
	prices, priced := s.prices[spec.Provider]
	if !priced || spec.GPU.IsZero() || len(prices.GPU) == 0 || requested != 0 || spec.Checkpoint != "" {
		return false
	}
	if spec.Timeout != 0 && spec.Timeout <= gpuLifetime {
		return false
	}
	spec.Timeout = gpuLifetime
	return true
}

// budget bounds the lifetime of a launch by its cost limit. requested is the lifetime of the request, or 0.
func (s *base) budget(spec *core.Spec, provider string, requested core.Duration) error {
	if err := s.knowsPrices(*spec, provider); err != nil {
		return err
	}
	longest, bounded, err := s.affordable(*spec, provider, 0)
	if err != nil || !bounded {
		return err
	}
	if requested == core.NoTimeout || requested > longest {
		return core.Errorf(core.KindExhausted, "launch", "", "a lifetime of %s at %s costs more than %v %s, which lasts %s",
			requested, provider, spec.MaxCost, s.prices[provider].Currency, longest).
			WithHint("use --timeout %s, or a larger --max-cost", longest)
	}
	if spec.Timeout <= 0 || spec.Timeout > longest {
		spec.Timeout = longest
	}
	return nil
}

// knowsPrices rejects a cost limit at a remote provider without known prices. Local sandboxes without prices cost
// nothing.
func (s *base) knowsPrices(spec core.Spec, provider string) error {
	if _, priced := s.prices[provider]; spec.MaxCost == 0 || priced {
		return nil
	}
	caps, err := Providers{s}.Capabilities(provider)
	if err != nil || !caps.Remote {
		return err
	}
	return core.Errorf(
		core.KindUsage, "launch", "", "the price of a sandbox at %s is unknown, so --max-cost cannot limit it", provider,
	).
		WithHint("see: sb config get prices.%s; or limit the lifetime with --timeout", provider)
}

// affordable returns how long a sandbox can live on the rest of its MaxCost at the highest rate, in whole seconds.
// bounded is false if the sandbox costs nothing or has no limit.
func (s *base) affordable(
	spec core.Spec, provider string, chargedTime time.Duration,
) (longest core.Duration, bounded bool, err error) {
	prices, priced := s.prices[provider]
	if spec.MaxCost == 0 || !priced {
		return 0, false, nil
	}
	rate, err := prices.MostRate(spec)
	if err != nil || rate == 0 {
		return 0, false, err
	}
	seconds := min(spec.MaxCost/rate-chargedTime.Seconds(), core.MaxLifetime.Seconds())
	if seconds < 1 {
		return 0, true, core.Errorf(
			core.KindExhausted, "cost", "", "%v %s is used up in less than a second", spec.MaxCost, prices.Currency,
		).
			WithHint("use a larger --max-cost, or request less")
	}
	return core.Duration(time.Duration(seconds) * time.Second), true, nil
}

// checkBudget returns an error if a lifetime of timeout after now costs more than the sandbox may.
func (s *base) checkBudget(sb core.Sandbox, timeout time.Duration) error {
	longest, bounded, err := s.affordable(sb.Spec, sb.Provider, s.chargedTime(sb))
	if err != nil || !bounded {
		return err
	}
	if timeout == 0 || timeout > time.Duration(longest) {
		return core.Errorf(
			core.KindExhausted, "timeout", sb.Name, "it may cost %v %s, which lasts %s from now", sb.Spec.MaxCost,
			s.prices[sb.Provider].Currency, longest,
		)
	}
	return nil
}
